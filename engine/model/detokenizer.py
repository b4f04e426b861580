"""Bytes to text as they come: a character split over several tokens appears with the token that completes it."""

from __future__ import annotations

from codecs import utf_8_decode


class IncrementalDetokenizer:
    """One sequence's decoder. Never yields U+FFFD for a character that later bytes can still complete."""

    def __init__(self) -> None:
        self._unfinished = b""  # the beginning of a character

    def feed(self, token_bytes: bytes) -> str:
        """The text that became complete with these bytes; "" while a character is unfinished."""
        data = self._unfinished + token_bytes if self._unfinished else token_bytes
        text, num_decoded = utf_8_decode(data, "replace", False)
        self._unfinished = data[num_decoded:]
        return text

    def finish(self) -> str:
        """What is left at the end: U+FFFD for a character that stayed unfinished, else ""."""
        text, _ = utf_8_decode(self._unfinished, "replace", True)
        self._unfinished = b""
        return text
