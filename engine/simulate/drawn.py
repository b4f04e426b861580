"""Pseudorandom tokens in place of a model's, a function of request and position only."""

from __future__ import annotations

from hashlib import blake2b
from typing import Protocol


class Tokens(Protocol):
    """Source of sampled tokens."""

    def at(self, request_id: str, position: int) -> int:
        """Return the token id at that position."""


class RandomTokens:
    """Pseudorandom tokens of a run. Two requests get the same continuation only by chance."""

    def __init__(self, vocab_size: int, seed: int) -> None:
        self._vocab_size, self._seed = vocab_size, seed
        self._first: dict[str, int] = {}

    def at(self, request_id: str, position: int) -> int:
        first = self._first.get(request_id)
        if first is None:
            digest = blake2b(f"{self._seed}/{request_id}".encode(), digest_size=8).digest()
            first = self._first[request_id] = int.from_bytes(digest, "little")
        return (first + position * 7919) % self._vocab_size  # a prime step, so that consecutive ids are not ascending
