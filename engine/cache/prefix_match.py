"""Longest prefix of a sequence whose blocks are cached in every group of layers.

The engine's prefix cache searches its pools with it, and a router the pools that it reconstructs from the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from engine.cache.attention_span import RetentionPolicy
from engine.cache.prefix_cache import HashChain
from engine.trace.operations import RELEASED


class BlockIndex(NamedTuple):
    """Index of the cached blocks of a group of layers."""

    find: Callable[[bytes], int | None]  # block hash -> block id; None if not cached
    retention: RetentionPolicy | None  # which blocks a query needs; None: all


def longest_match(
    groups: Sequence[BlockIndex], chain: HashChain, token_ids: Sequence[int], block_size: int
) -> list[list[int]]:
    """Return the hit blocks of each group in logical order, the same number for all groups; [] if nothing hits.

    Only full blocks hit, at most len(token_ids) - 1 tokens: the last token must run through the model to get logits.
    Blocks that no later query sees are RELEASED, whether or not they are cached. `chain`: hashes of `token_ids`.
    """
    num_blocks = (len(token_ids) - 1) // block_size
    while num_blocks > 0:  # a miss in one group shortens the match of all; each round is shorter
        hits = list[list[int]]()
        for group in groups:
            hits.append(_hits(group, chain, token_ids, num_blocks, block_size))
            num_blocks = len(hits[-1])
        if num_blocks and all(len(found) == num_blocks for found in hits):
            return hits
    return []


def _hits(group: BlockIndex, chain: HashChain, token_ids: Sequence[int], num_blocks: int, block_size: int) -> list[int]:
    """Return a group's cached blocks among the first `num_blocks`."""
    hits: list[int] = []
    for logical in range(num_blocks):
        block_id = group.find(chain.hash_at(logical, token_ids))
        if block_id is None and group.retention is None:
            break
        hits.append(RELEASED if block_id is None else block_id)
    if group.retention is not None:
        _truncate_to_needed(hits, group.retention, block_size)
    return hits


def _truncate_to_needed(hits: list[int], retention: RetentionPolicy, block_size: int) -> None:
    """Truncate `hits` to the longest prefix in which every block that the next query sees is cached."""
    first = retention.first(block_size)
    sinks_end = next((i for i, block_id in enumerate(hits[:first]) if block_id == RELEASED), len(hits))
    del hits[sinks_end:]
    while hits:
        begin = max(first, retention.end(len(hits) * block_size, block_size))
        missing = next((i for i in range(len(hits) - 1, begin - 1, -1) if hits[i] == RELEASED), None)
        if missing is None:
            hits[first:begin] = [RELEASED] * (begin - first)
            return
        del hits[missing:]  # a shorter prefix with this block needs it too
