"""Error responses in OpenAI's format, `{"error": {"message", "type", "param", "code"}}`, and in Anthropic's."""

from __future__ import annotations

from typing import Any

import msgspec
from flask import Request
from werkzeug.exceptions import HTTPException, NotFound

from app.ground.errors import HTTP_STATUS, RETRY_AFTER, AppError, refusal_of
from app.ground.routing import http_sentence
from app.openai.paths import MAX_BYTES, PREFIX, is_anthropic

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
    503: "service_unavailable_error",
}
ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}
CODES = {
    "token_required": "invalid_api_key",
    "too_many_theaters": "rate_limit_exceeded",
    "too_slow": "request_timeout",
}
STATUS = {"refused": 400, "busy": 503, "unknown_theater": 503}  # statuses that differ from the page's


class ApiError(Exception):
    """Error response of an API. The message is one sentence."""

    def __init__(
        self,
        message: str,
        param: str | None = None,
        *,
        status: int = 400,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        """`param`: the invalid field of the body. `retry_after`: seconds until the client may retry."""
        super().__init__(message)
        self.message, self.param, self.status, self.code = message, param, status, code
        self.retry_after = retry_after

    def as_map(self, path: str = PREFIX) -> dict[str, Any]:
        """Return the body in the format of the API at `path`."""
        if is_anthropic(path):
            kind = ANTHROPIC_TYPES.get(self.status, "api_error" if self.status >= 500 else "invalid_request_error")
            return {"type": "error", "error": {"type": kind, "message": self.message}}
        kind = TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def response(self, path: str) -> tuple[str, list[tuple[str, str]], bytes]:
        """Return status line, headers and body of the response."""
        body = msgspec.json.encode(self.as_map(path))
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        if self.retry_after is not None:
            headers.append(("Retry-After", str(self.retry_after)))
        return self.status_line, headers, body

    @property
    def status_line(self) -> str:
        return f"{self.status} {self.code or 'refused'}"


def api_error(error: BaseException, param: str | None = None) -> ApiError | None:
    """Return the API's form of an exception; None for a bug of the program."""
    if isinstance(error, ApiError):
        return error
    refusal = refusal_of(error)
    return None if refusal is None else from_app_error(refusal, param)


def from_app_error(refusal: AppError, param: str | None = None) -> ApiError:
    """Return the API's form of an `AppError`."""
    status = STATUS.get(refusal.code, HTTP_STATUS[refusal.code])
    return ApiError(
        refusal.message,
        param,
        status=status,
        code=CODES.get(refusal.code, refusal.code if status != 400 else None),
        retry_after=RETRY_AFTER if status in (429, 503) else None,
    )


def from_http_error(error: HTTPException, request: Request) -> ApiError:
    """Return the API's form of a Werkzeug error: unknown path or method, a body that is too long or too slow."""
    if isinstance(error, NotFound):
        return ApiError(f"there is no {request.path[:80]} here", status=404, code="not_found")
    status = error.code or 500
    message = f"a body may have {MAX_BYTES >> 20} MiB" if status == 413 else http_sentence(error, request)
    return ApiError(message, status=status, code=CODES["too_slow"] if status == 408 else None)
