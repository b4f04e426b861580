"""Refusals: what a client is told when it cannot have what it asked for."""

from __future__ import annotations

from typing import Any, Literal

Code = Literal[
    "bad_request",
    "unknown_theater",
    "too_many_theaters",
    "refused",
    "busy",
    "internal",
    "not_found",
    "stale_epoch",
    "token_required",
    "forbidden",
]

HTTP_STATUS: dict[str, int] = {
    "bad_request": 400,
    "token_required": 401,
    "forbidden": 403,
    "unknown_theater": 404,
    "not_found": 404,
    "stale_epoch": 404,
    "busy": 409,
    "refused": 422,
    "too_many_theaters": 429,
    "internal": 500,
}


class AppError(Exception):
    """A refusal with its code; the message is one sentence for a person."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code: Code = code
        self.message = message

    def as_map(self) -> dict[str, Any]:
        """As it travels, over sockets and HTTP alike."""
        return {"error": {"code": self.code, "message": self.message}}


def one_sentence(error: BaseException) -> str:
    """An exception in one line, without its traceback; names the type when it has no text of its own."""
    text = " ".join(str(error).split())
    return text[:500] if text else f"{type(error).__name__} without further explanation"
