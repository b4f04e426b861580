"""Content of an instance's pool, derived from its log, so that the router need not call the instance.

The indexers of Dynamo and llm-d do so with vLLM's KV events: `cache` is BlockStored, `evict` is BlockRemoved. They use
a prefix tree. Here a block hash covers all tokens before it, so a hash table gives the same answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.cache.attention_span import RetentionPolicy, state_retention
from engine.cache.prefix_cache import HashChain
from engine.cache.prefix_match import BlockIndex, longest_match
from engine.trace.operations import Allocate, Cache, Evict, Free, Lost, Op, Release, Share
from engine.trace.records import BlockGroup


class PoolView:
    """Number of held blocks and block ids by hash, after the records processed so far."""

    def __init__(self, block_groups: Sequence[BlockGroup], block_size: int) -> None:
        """`block_groups`: the instance's block groups in the merged log."""
        self.num_held = 0  # blocks that sequences hold, of all groups
        self._block_size = block_size
        # per group: hash -> ids of the blocks with that hash, in the order in which they were cached
        self._ids: list[dict[bytes, dict[int, None]]] = [{} for _ in block_groups]
        self._group_of = {
            block_id: index
            for index, group in enumerate(block_groups)
            for block_id in range(group.first_block, group.first_block + group.num_blocks)
        }
        self._lookups = [
            BlockIndex(lambda block_hash, ids=ids: next(iter(ids.get(block_hash, ())), None), _retention(group))  # type: ignore[misc]
            for ids, group in zip(self._ids, block_groups, strict=True)
        ]

    def note(self, ops: Iterable[Op]) -> None:
        """Process operations of the instance, in order."""
        for op in ops:
            match op:
                case Cache():
                    ids = self._ids[self._group_of[op.block_id]]
                    ids.setdefault(op.block_hash, {})[op.block_id] = None
                case Evict():
                    ids = self._ids[self._group_of[op.block_id]]
                    del ids[op.block_hash][op.block_id]
                    if not ids[op.block_hash]:
                        del ids[op.block_hash]
                case Allocate() | Share(revived=True):
                    self.num_held += 1
                case Free() | Release() if op.to is not None:
                    self.num_held -= 1
                case Lost():
                    self.clear()
                case _:
                    pass

    def clear(self) -> None:
        """Clear the view, because the instance has ended."""
        self.num_held = 0
        for ids in self._ids:
            ids.clear()

    def match(self, token_ids: Sequence[int], chain: HashChain) -> list[list[int]]:
        """Return the block ids per group that a lookup on the instance would return. `chain`: hashes of `token_ids`."""
        return longest_match(self._lookups, chain, token_ids, self._block_size)

    def num_hit_tokens(self, token_ids: Sequence[int], chain: HashChain) -> int:
        """Number of tokens that would hit: full blocks, at most len(token_ids) - 1 tokens."""
        hits = self.match(token_ids, chain)
        return len(hits[0]) * self._block_size if hits else 0


def _retention(group: BlockGroup) -> RetentionPolicy | None:
    if group.state_bytes:
        return state_retention(group.checkpoint)
    return None if group.window is None else RetentionPolicy(group.window, group.sinks, "window")
