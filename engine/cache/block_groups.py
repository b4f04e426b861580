"""Kinds of layers, and the pool of blocks that each kind has.

    layers   0 1 2 3 4   6 7 8 9 10     the last `window` keys   -> a pool that need not grow with the sequences
                       5            11  all keys                 -> a pool of num_blocks

A hybrid model (Gemma 3, GPT-OSS) has layers that see all keys and layers that see a window of them. One block table for
all of them could never let a block go. So layers that see alike form a group, with a block table of its own for each
sequence and a pool of its own, whose blocks hold the keys and values of that group's layers only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from engine.cache.reach import Reach, Retention, WindowPolicy, retention_of
from engine.trace.records import BlockGroup


class GroupPlan(NamedTuple):
    """One group of layers and the size of its pool."""

    layers: list[int]
    reaches: frozenset[Reach]  # of its layers
    retention: Retention | None  # None: everything is kept
    num_blocks: int


class Demands(NamedTuple):
    """What the engine may ask of a pool at once."""

    max_num_seqs: int
    max_num_batched_tokens: int


def plan_groups(
    reaches: Sequence[Reach],
    policy: WindowPolicy | None,
    num_blocks: int,
    block_size: int,
    demands: Demands,
    split: bool = True,
) -> list[GroupPlan]:
    """The groups of a model whose layers see so far; who sees most comes first.

    `num_blocks` is what a group gets that keeps everything. A group with a window beside it gets no more than all
    sequences together can hold of it at once: their windows, and the tokens of one step. `split` False: all layers
    share one table, which keeps what any of them sees.
    """
    kinds = sorted(set(reaches), key=lambda reach: float("inf") if reach.num_keys is None else reach.num_keys)
    if not split or len(kinds) < 2:
        return [GroupPlan(list(range(len(reaches))), frozenset(reaches), retention_of(reaches, policy), num_blocks)]
    plans = []
    for kind in reversed(kinds):
        retention = retention_of([kind], policy)
        blocks = num_blocks if retention is None else min(num_blocks, _at_most(retention, block_size, demands))
        layers = [layer for layer, reach in enumerate(reaches) if reach == kind]
        plans.append(GroupPlan(layers, frozenset([kind]), retention, blocks))
    return plans


def trace_groups(plans: Sequence[GroupPlan], bytes_per_token: Callable[[Sequence[int]], int]) -> list[BlockGroup]:
    """The groups in the trace's terms: block ids follow each other. `bytes_per_token`: of some layers together."""
    groups, first = list[BlockGroup](), 0
    for plan in plans:
        groups.append(
            BlockGroup(
                layers=plan.layers,
                first_block=first,
                num_blocks=plan.num_blocks,
                window=plan.retention.window if plan.retention else None,
                sinks=plan.retention.sinks if plan.retention else 0,
                kv_bytes_per_token=bytes_per_token(plan.layers),
            )
        )
        first += plan.num_blocks
    return groups


def _at_most(retention: Retention, block_size: int, demands: Demands) -> int:
    """Blocks that no step can exceed: each sequence's window, one block more for where its tokens begin, the tokens."""
    each = retention.most_blocks(1, block_size) + 1
    return demands.max_num_seqs * each - (-demands.max_num_batched_tokens // block_size)
