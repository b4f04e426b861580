"""Refusals: error responses to clients."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import asdict

from engine.options.refusal import Sentence, Sentences
from engine.trace.codec import TraceFormatError
from engine.trace.log import LogLimitError
from engine.trace.records import Objection

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
    "loading",
    "too_slow",
    "unavailable",
]

HTTP_STATUS: dict[str, int] = {
    "bad_request": 400,
    "token_required": 401,
    "forbidden": 403,
    "unknown_theater": 404,
    "not_found": 404,
    "stale_epoch": 404,
    "too_slow": 408,
    "busy": 409,
    "refused": 422,
    "too_many_theaters": 429,
    "internal": 500,
    "loading": 503,
    "unavailable": 503,
}
app_sentence = Sentences(Path(__file__).with_name("refusals.json"))
INTERNAL_ERROR = "internal server error; the server's terminal has details"
RETRY_AFTER = 2  # seconds after which a client may retry if the model is `loading`


class AppError(Exception):
    """Refusal with its code. The message is one sentence for a person."""

    def __init__(
        self,
        code: Code,
        message: str,
        objection: Objection | None = None,
        translations: Mapping[str, str] | None = None,
    ) -> None:
        """`objection`: a violated rule of the engine, for the page. `translations`: language code -> message, without
        English.
        """
        super().__init__(message)
        self.code: Code = code
        self.message = str(message)
        self.objection = objection
        if translations is None and isinstance(message, Sentence):
            translations = message.translations
        self.translations = translations

    def as_map(self) -> dict[str, Any]:
        """Return the error as sent over sockets and HTTP."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.objection:
            error["objection"] = asdict(self.objection)
        if self.translations:
            error["said"] = dict(self.translations)
        return {"error": error}


def refuse(code: Code, key: str, **values: object) -> AppError:
    """Return a refusal with the sentence `key` of refusals.json."""
    return AppError(code, app_sentence(key, **values))


FULL = (errno.ENOSPC, errno.EDQUOT, None)  # None: an error of a log that has ended, which has no errno


def refusal_of(error: BaseException) -> AppError | None:
    """Return the refusal for an error: an AppError itself, or one for an error of a disk or of a damaged log. None for
    a bug of the program.
    """
    if isinstance(error, AppError):
        return error
    if isinstance(error, TraceFormatError):
        return refuse("refused", "log.unreadable", error=one_sentence(error))
    if not isinstance(error, OSError) or isinstance(error, ConnectionError | TimeoutError):
        return None
    if isinstance(error, LogLimitError):
        return refuse("refused", "log.ended", error=one_sentence(error))
    reason = error.strerror or one_sentence(error)
    if error.errno not in FULL and "temporary directory" not in reason:
        return refuse("refused", "disk.error", reason=reason)
    folder = tempfile.tempdir or "the temporary folder"
    return refuse("refused", "disk.full", reason=reason, folder=folder)


def refused(error: Exception) -> AppError:
    """Return the refusal for an error of the engine, in all languages."""
    return AppError("refused", sentence_of(error))


def sentence_of(error: BaseException) -> str:
    """Return an error's sentence in all languages; `one_sentence` if it has none."""
    message = error.args[0] if error.args else ""
    return message if isinstance(message, Sentence) else one_sentence(error)


def one_sentence(error: BaseException) -> str:
    """Return an exception's message in one line; its type if it has no message."""
    text = " ".join(str(error).split())
    return text[:500] if text else f"{type(error).__name__} without a message"
