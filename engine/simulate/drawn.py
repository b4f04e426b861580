"""Tokens where nothing samples any: the same for the same request and position, whoever computes it, and when."""

from __future__ import annotations

from hashlib import blake2b
from typing import Protocol


class Tokens(Protocol):
    """What is sampled."""

    def at(self, request_id: str, position: int) -> int:
        """The token id at that position."""


class DrawnTokens:
    """Of a run. No two requests go on alike, but by chance."""

    def __init__(self, vocab_size: int, seed: int) -> None:
        self._vocab_size, self._seed = vocab_size, seed
        self._first: dict[str, int] = {}

    def at(self, request_id: str, position: int) -> int:
        first = self._first.get(request_id)
        if first is None:
            digest = blake2b(f"{self._seed}/{request_id}".encode(), digest_size=8).digest()
            first = self._first[request_id] = int.from_bytes(digest, "little")
        return (first + position * 7919) % self._vocab_size  # a prime, so that a text does not count up
