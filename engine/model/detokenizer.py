"""Incremental decoding of bytes to text: a character split over several tokens is returned with its last token."""

from __future__ import annotations

from codecs import utf_8_decode


class IncrementalDetokenizer:
    """Decoder of a sequence. Returns no U+FFFD for a character that later bytes can still complete."""

    def __init__(self) -> None:
        self._unfinished = b""  # first bytes of an incomplete character

    def feed(self, token_bytes: bytes) -> str:
        """Decode more bytes; return the characters that they complete."""
        data = self._unfinished + token_bytes if self._unfinished else token_bytes
        text, num_decoded = utf_8_decode(data, "replace", False)
        self._unfinished = data[num_decoded:]
        return text

    def finish(self) -> str:
        """Return the rest of the text: U+FFFD for an incomplete character, else ""."""
        text, _ = utf_8_decode(self._unfinished, "replace", True)
        self._unfinished = b""
        return text
