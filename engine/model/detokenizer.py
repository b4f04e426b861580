"""Bytes to text as they come: a character split over several tokens appears with the token that completes it."""

from __future__ import annotations

import codecs


class IncrementalDetokenizer:
    """One sequence's decoder. Never yields U+FFFD for a character that later bytes can still complete."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, token_bytes: bytes) -> str:
        """The text that became complete with these bytes; "" while a character is unfinished."""
        return self._decoder.decode(token_bytes)

    def finish(self) -> str:
        """What is left at the end: U+FFFD for a character that stayed unfinished, else ""."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text
