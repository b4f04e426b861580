"""Block manager of an exercise: applies operations to block tables, free queue and ref counts, or rejects them.

It follows the engine's rules (`engine/cache/block_pool.py`, `engine/cache/group_manager.py`): a block is allocated from
the free queue after its hash is evicted. At ref_count 0 it returns to the front of the queue, or to the back if it has
a hash.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from engine.trace.state import State

Kind = Literal["allocate", "share", "copy", "free", "evict"]
Objection = Literal[
    "in_use",
    "still_hashed",
    "no_hash",
    "other_tokens",
    "last_token",
    "twice",
    "not_in_table",
    "alone",
    "full",
    "still_read",
    "nobody",
]


class BlockMove(Struct, frozen=True, kw_only=True):
    """Operation on the block `block`.

    `allocate`  append the block to the table of sequence `seq`
    `share`     append a block that already has the right content
    `copy`      copy block `source` to the block, which replaces `source` in the table of `seq`
    `free`      remove the block from the table of `seq`
    `evict`     remove the block's hash
    """

    kind: Kind
    block: int
    seq: int | None = None
    source: int | None = None


class BlockManager:
    """State of the blocks of one group."""

    def __init__(self, state: State, leaving: set[int]) -> None:
        """Begin with a state of the run. `leaving`: sequences whose blocks may be freed."""
        self.size = state.block_size
        self.queue = list(state.free_queues[0])
        self.refs = [block.ref_count for block in state.blocks]
        self.hashed = [block.block_hash is not None for block in state.blocks]
        self.content = [list(block.token_ids) for block in state.blocks]
        self.tables = {i: list(seq.block_tables[0]) for i, seq in state.sequences.items() if seq.status != "finished"}
        self._texts = {i: seq.token_ids for i, seq in state.sequences.items()}
        self._leaving = leaving

    def objection(self, move: BlockMove) -> Objection | None:
        """Return the reason why the operation is not allowed, or None if it is."""
        table = self.tables.get(move.seq) if move.seq is not None else None
        if table is None and (move.kind != "evict" or move.seq is not None):
            return "nobody"
        match move.kind:
            case "allocate":
                return self._allocation_objection(move.block)
            case "share":
                return self._share_objection(move.block, table or [], self._texts[move.seq or 0])
            case "copy":
                return self._copy_objection(move, table or [])
            case "free":
                if move.block not in (table or []):
                    return "not_in_table"
                return None if move.seq in self._leaving else "still_read"
            case "evict":
                return "in_use" if self.refs[move.block] else None if self.hashed[move.block] else "no_hash"

    def do(self, move: BlockMove) -> None:
        """Apply an allowed operation."""
        block = move.block
        table = self.tables[move.seq] if move.seq is not None else []
        match move.kind:
            case "allocate":
                self._allocate(block, [])
                table.append(block)
            case "share":
                if not self.refs[block]:
                    self.queue.remove(block)
                self.refs[block] += 1
                table.append(block)
            case "copy":
                assert move.source is not None
                self._allocate(block, list(self.content[move.source]))
                self.refs[move.source] -= 1
                table[table.index(move.source)] = block
            case "free":
                table.remove(block)
                self.refs[block] -= 1
                if not self.refs[block]:
                    self.queue.insert(len(self.queue) if self.hashed[block] else 0, block)
            case "evict":
                self.hashed[block], self.content[block] = False, []

    def cache(self, block: int, tokens: list[int]) -> None:
        """Set the hash of a full block that the engine has cached, if the block is in use here too."""
        if self.refs[block]:
            self.hashed[block], self.content[block] = True, list(tokens)

    def _allocate(self, block: int, content: list[int]) -> None:
        self.queue.remove(block)
        self.refs[block], self.content[block] = 1, content

    def _allocation_objection(self, block: int) -> Objection | None:
        return "in_use" if self.refs[block] else "still_hashed" if self.hashed[block] else None

    def _share_objection(self, block: int, table: list[int], text: list[int]) -> Objection | None:
        end = (len(table) + 1) * self.size
        if block in table:
            return "twice"
        if not self.hashed[block]:
            return "no_hash"
        if self.content[block] != text[end - self.size : end]:
            return "other_tokens"
        return "last_token" if end > len(text) - 1 else None

    def _copy_objection(self, move: BlockMove, table: list[int]) -> Objection | None:
        source = move.source
        if source is None or source not in table:
            return "not_in_table"
        if len(self.content[source]) == self.size:
            return "full"
        return "alone" if self.refs[source] == 1 else self._allocation_objection(move.block)
