"""Base of the response formats of the APIs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from app.openai.call import Call
from app.openai.errors import ApiError
from app.openai.paths import PREFIX

TokenBytes = Callable[[int], bytes]


def event(value: Any, name: str = "") -> bytes:
    """Encode a server-sent event."""
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + msgspec.json.encode(value) + b"\n\n"


class ResponseFormat(ABC):
    """Formatter of the response to one call, as one body or as events. Used on the hub thread only."""

    path: ClassVar[str] = PREFIX  # a path of this API, which selects the format of errors
    id_prefix: ClassVar[str] = ""  # prefix of response ids; "": that of OpenAI's completions
    keep_alive: ClassVar[bytes] = b": waiting\n\n"  # sent in a stream without output; clients ignore comments

    def __init__(self, call: Call, token_bytes: TokenBytes) -> None:
        self.call, self.token_bytes = call, token_bytes

    @abstractmethod
    def body(self) -> dict[str, Any]:
        """Return the response to a finished call."""

    @abstractmethod
    def chunks(self) -> list[bytes]:
        """Return the events since the last call."""

    @abstractmethod
    def last_chunks(self) -> list[bytes]:
        """Return the final events of a successful stream."""

    def error_chunks(self, error: ApiError) -> list[bytes]:
        """Return the final events of a failed stream."""
        return [event(error.as_map(self.path))]
