"""A refusal as an HTTP answer, for what stands in front of the endpoints: in the shape that its address has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from app.ground.errors import HTTP_STATUS, AppError
from app.openai.errors import of_refusal
from app.openai.paths import is_api


def refused(error: AppError, path: str) -> tuple[str, list[tuple[str, str]], bytes]:
    """Status line, headers and body: as OpenAI has them where the path is the API's."""
    if is_api(path):
        found = of_refusal(error)
        return found.status_line, found.headers(), found.body()
    body = json.dumps(error.as_map()).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    return f"{HTTP_STATUS[error.code]} {error.code}", headers, body


def refused_body(
    environ: Mapping[str, Any], code: Literal["busy", "too_slow"], message: str
) -> tuple[str, list[tuple[str, str]], bytes]:
    """The same for a request whose body is not taken, as the transport asks for it."""
    return refused(AppError(code, message), str(environ.get("PATH_INFO", "")))
