"""Mapping of block hashes between the logs of two engines, so that their operations can be compared.

A hash of one log is mapped to a hash of the other log where both first occur in the same operation.
"""

from __future__ import annotations

from msgspec.structs import replace

from engine.trace.operations import Cache, Evict, Finish, Op, Submit


class HashMapping:
    """Bijective mapping of hashes between logs a and b. Pass the operations in the order of the logs."""

    def __init__(self) -> None:
        self._b_of_a: dict[bytes, bytes] = {}
        self._a_of_b: dict[bytes, bytes] = {}

    def pair(self, a: list[Op], b: list[Op]) -> tuple[list[Op], list[Op]]:
        """Return both lists without texts and sampling settings. Mapped hashes of `b` are replaced by those of `a`."""
        found = [without_texts(op) for op in a], [without_texts(op) for op in b]
        for position, (x, y) in enumerate(zip(a, b, strict=False)):
            if (
                isinstance(x, Cache | Evict)
                and isinstance(y, Cache | Evict)
                and self._agree(x.block_hash, y.block_hash)
            ):
                found[1][position] = _with_hashes(found[1][position], found[0][position])
        return found

    def _agree(self, a: bytes, b: bytes) -> bool:
        return self._b_of_a.setdefault(a, b) == b and self._a_of_b.setdefault(b, a) == a


def without_texts(op: Op) -> Op:
    """Return the operation without texts, sampling settings and the engine's messages."""
    if isinstance(op, Submit):
        no_texts = [b""] * len(op.prompt_token_ids)
        return replace(op, prompt_token_bytes=no_texts, sampling={}, client=None, waited=0.0)
    return replace(op, detail="") if isinstance(op, Finish) else op


def _with_hashes(op: Op, source: Op) -> Op:
    if isinstance(op, Cache) and isinstance(source, Cache):
        return replace(op, block_hash=source.block_hash, parent_hash=source.parent_hash)
    if isinstance(op, Evict) and isinstance(source, Evict):
        return replace(op, block_hash=source.block_hash)
    return op
