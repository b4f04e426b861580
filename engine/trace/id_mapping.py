"""Comparable operations of two engines: names may differ, decisions may not.

Hashes are mapped at first use: two logs agree as long as each content has one hash in each.
"""

from __future__ import annotations

from msgspec.structs import replace

from engine.trace.operations import Cache, Evict, Finish, Op, Submit


class Renamed:
    """Maps the operations of one log to another engine's, in the order of the logs."""

    def __init__(self) -> None:
        self._theirs: dict[bytes, bytes] = {}  # our hash -> theirs
        self._ours: dict[bytes, bytes] = {}

    def pair(self, ours: list[Op], theirs: list[Op]) -> tuple[list[Op], list[Op]]:
        """Return both lists without texts and sampling settings, and with equal hashes for equal contents."""
        found = [plain(op) for op in ours], [plain(op) for op in theirs]
        for place, (a, b) in enumerate(zip(ours, theirs, strict=False)):
            if (
                isinstance(a, Cache | Evict)
                and isinstance(b, Cache | Evict)
                and self._agree(a.block_hash, b.block_hash)
            ):
                found[1][place] = _with_hashes(found[1][place], found[0][place])
        return found

    def _agree(self, ours: bytes, theirs: bytes) -> bool:
        return self._theirs.setdefault(ours, theirs) == theirs and self._ours.setdefault(theirs, ours) == ours


def plain(op: Op) -> Op:
    """Return the operation without texts, sampling settings and the engine's messages."""
    if isinstance(op, Submit):
        no_texts = [b""] * len(op.prompt_token_ids)
        return replace(op, prompt_token_bytes=no_texts, sampling={}, client=None, waited=0.0)
    return replace(op, detail="") if isinstance(op, Finish) else op


def _with_hashes(theirs: Op, ours: Op) -> Op:
    if isinstance(theirs, Cache) and isinstance(ours, Cache):
        return replace(theirs, block_hash=ours.block_hash, parent_hash=ours.parent_hash)
    if isinstance(theirs, Evict) and isinstance(ours, Evict):
        return replace(theirs, block_hash=ours.block_hash)
    return theirs
