"""Hashes of blocks: a hash covers a block's tokens and all tokens before them, so equal hashes mean equal K and V.

tokens      [t0 t1 t2 t3 | t4 t5 t6 t7 | t8 t9]      block_size 4
hashes       h0 = H(salt, t0..t3)
                          h1 = H(h0, t4..t7)
                                        no hash: the block is not full
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import blake2b
from typing import NamedTuple

from engine.trace.operations import RELEASED, LookupVerdict

HASH_BYTES = 16


class PrefixMatch(NamedTuple):
    """Prefix-cache match of a sequence. Valid until the next allocation or release."""

    hits: list[list[int]]  # by group of layers: block ids in logical order, RELEASED where no query will see the block.
    # The lists of all groups have the same length; [] if nothing hits.
    num_tokens: int  # tokens of the hit blocks, at most the sequence's tokens - 1
    verdict: LookupVerdict

    @property
    def block_ids(self) -> list[int]:
        """Hit blocks, group by group."""
        return [block_id for hits in self.hits for block_id in hits if block_id != RELEASED]


def hash_block(
    parent_hash: bytes | None, token_ids: Sequence[int], cache_salt: str | None = None, mark: bytes = b""
) -> bytes:
    """Return the hash (HASH_BYTES bytes) of a full block's content.

    The hash of a sequence's first block, which has no parent, includes the salt; later ones inherit it from their
    parents. `mark`: describes an ablation, on which the content depends too. The encoding is unambiguous: a tag for
    root, child or mark, a length before each field of variable size, and 8 bytes per token.
    """
    if parent_hash is not None:
        head = b"\x02" + parent_hash
    elif cache_salt is None:
        head = b"\x00"
    else:
        salt = cache_salt.encode("utf-8", "surrogatepass")
        head = b"\x01" + struct.pack("<Q", len(salt)) + salt
    if mark:
        head = b"\x03" + struct.pack("<Q", len(mark)) + mark + head
    return blake2b(head + _packing(len(token_ids))(*token_ids), digest_size=HASH_BYTES).digest()


@cache
def _packing(num_tokens: int) -> Callable[..., bytes]:
    return struct.Struct(f"<{num_tokens}q").pack


Mark = Callable[[int, int], bytes]  # first position, end -> bytes that describe the ablation of these positions


def unmarked(start: int, end: int) -> bytes:
    """Return the mark of positions without an ablation."""
    return b""


class HashChain:
    """Hashes of a sequence's full blocks, each computed once, since tokens are only appended to a sequence."""

    def __init__(self, block_size: int, cache_salt: str | None, mark: Mark = unmarked) -> None:
        self.cache_salt = cache_salt
        self._block_size, self._mark = block_size, mark
        self._hashes: list[bytes] = []

    def hash_at(self, logical: int, token_ids: Sequence[int]) -> bytes:
        """Return the hash of a logical block, which must be full. `token_ids`: all tokens of the sequence."""
        size, hashes = self._block_size, self._hashes
        for index in range(len(hashes), logical + 1):
            parent = hashes[-1] if index else None
            start, end = index * size, (index + 1) * size
            hashes.append(hash_block(parent, token_ids[start:end], self.cache_salt, self._mark(start, end)))
        return hashes[logical]

    def parent_of(self, logical: int) -> bytes | None:
        """Return the hash of the block before `logical`, computed earlier; None for the first block."""
        return self._hashes[logical - 1] if logical else None

    def cut(self, num_tokens: int) -> None:
        """Delete the hashes of blocks beyond `num_tokens` tokens, whose content will change."""
        del self._hashes[num_tokens // self._block_size :]

    def copy(self, mark: Mark = unmarked) -> HashChain:
        """Return an independent copy, for a fork."""
        chain = HashChain(self._block_size, self.cache_salt, mark)
        chain._hashes = list(self._hashes)
        return chain
