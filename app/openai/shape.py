"""Interface of the response formats of the APIs, and their common base."""

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


class Shape(ABC):
    """Answer to one call, whole or as events. On the hub thread only."""

    path: ClassVar[str] = PREFIX  # an address of this API, which decides how its errors look
    id_prefix: ClassVar[str] = ""  # of its answers' ids; "": of OpenAI's completions
    alive: ClassVar[bytes] = b": waiting\n\n"  # sent while a stream has nothing to say; every client skips it

    def __init__(self, call: Call, token_bytes: TokenBytes) -> None:
        self.call, self.token_bytes = call, token_bytes

    @abstractmethod
    def whole(self) -> dict[str, Any]:
        """Return the answer of a finished call."""

    @abstractmethod
    def chunks(self) -> list[bytes]:
        """Return the events since the last call."""

    @abstractmethod
    def last_chunks(self) -> list[bytes]:
        """Return the final events of a successful stream."""

    def failed(self, error: ApiError) -> list[bytes]:
        """Return the final events of a failed stream."""
        return [event(error.as_map(self.path))]
