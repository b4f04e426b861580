"""Groups of layers, and the block pool of each group.

    layers   0 1 2 3 4   6 7 8 9 10     the last `window` keys   -> a pool that need not grow with the sequences
                       5            11  all keys                 -> a pool of num_blocks

A hybrid model (Gemma 3, GPT-OSS) has layers that see all keys and layers that see a window of them. With one block
table for all layers, no block could be freed before the sequence ends. So layers with equal attention spans form a
group. Each group has its own pool, and its own block table for each sequence; its blocks hold the keys and values of
that group's layers only. Block ids are unique among all pools: those of a group follow those of the previous group. The
tensors of a layer have room for the blocks of its group only; the index of a block in them is

    block_id - first_block

which is computed only where block ids meet tensors: in `block_tiers` and in `model.batch.SlotTable`.

All layers with a recurrent state instead of keys and values form one group. A block of it has the state after the last
computed token that its table entry covers, so a sequence needs one block; earlier ones are released like blocks that
have left a window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engine.cache.attention_span import AttentionSpan, RetentionPolicy, WindowPolicy, retention_of, state_retention
from engine.trace.records import BlockGroup


class GroupPlan(NamedTuple):
    """Plan of a group of layers and its pool."""

    layers: list[int]
    reaches: frozenset[AttentionSpan]  # attention spans of its layers
    retention: RetentionPolicy | None  # None: all keys and values are retained
    num_blocks: int
    first_block: int = 0  # its blocks have the ids [first_block, first_block + num_blocks), in the trace and everywhere
    contiguous: bool = False  # all blocks of a sequence are adjacent and reserved at once, by first fit
    first_cpu_block: int = 0  # id of the first group's first block of the CPU store; ids of the other groups follow
    state_bytes: int = 0  # > 0: a block holds the state of all layers that have one, at one position

    @property
    def holds_states(self) -> bool:
        """Whether its blocks hold states, not keys and values."""
        return self.state_bytes > 0


class Demands(NamedTuple):
    """Limits of the scheduler, which bound the demand on a pool."""

    max_num_seqs: int
    max_num_batched_tokens: int


class States(NamedTuple):
    """Figures of a model's recurrent states, for `state_group`."""

    num_bytes: int  # bytes of one sequence's state in all layers
    checkpoint: int  # tokens between two retained states
    num_checkpoints: int  # states that are retained in addition to those of running sequences


def plan_groups(
    reaches: Sequence[AttentionSpan],
    policy: WindowPolicy | None,
    num_blocks: int,
    block_size: int,
    demands: Demands,
    split: bool = True,
) -> list[GroupPlan]:
    """Return the groups of layers with equal spans, the widest span first.

    `num_blocks`: blocks of a group that retains all keys. If there are several groups, one with a window gets at most
    the blocks that all sequences together can hold at once: their windows, and the tokens of one step. `split` False:
    all layers share one table, which retains the keys that any of them sees.
    """
    kinds = sorted(set(reaches), key=lambda reach: float("inf") if reach.num_keys is None else reach.num_keys)
    if not split or len(kinds) < 2:
        return [GroupPlan(list(range(len(reaches))), frozenset(reaches), retention_of(reaches, policy), num_blocks)]
    plans = list[GroupPlan]()
    for kind in reversed(kinds):
        retention = retention_of([kind], policy)
        blocks = num_blocks if retention is None else min(num_blocks, _max_blocks(retention, block_size, demands))
        layers = [layer for layer, reach in enumerate(reaches) if reach == kind]
        first = plans[-1].first_block + plans[-1].num_blocks if plans else 0
        plans.append(GroupPlan(layers, frozenset([kind]), retention, blocks, first))
    return plans


def state_group(states: States, first_block: int, demands: Demands) -> GroupPlan:
    """Return the group of all layers with a state. It has blocks for the largest step, and more for checkpoints."""
    retention = state_retention(states.checkpoint)
    # per sequence: the state before a step, and the last two that it stores
    max_in_use = 3 * demands.max_num_seqs + demands.max_num_batched_tokens // states.checkpoint + 1
    blocks = max_in_use + states.num_checkpoints
    return GroupPlan([], frozenset(), retention, blocks, first_block, state_bytes=states.num_bytes)


def one_group(num_blocks: int, retention: RetentionPolicy | None = None) -> list[GroupPlan]:
    """Return the plan of a cache without a model: one group for all layers."""
    return [GroupPlan([], frozenset(), retention, num_blocks)]


def trace_groups(plans: Sequence[GroupPlan], kv_bytes_per_token: Sequence[int]) -> list[BlockGroup]:
    """Return the groups in the form of the trace header. `kv_bytes_per_token`: bytes of all layers, by group."""
    return [
        BlockGroup(
            layers=plan.layers,
            first_block=plan.first_block,
            num_blocks=plan.num_blocks,
            window=plan.retention.window if plan.retention and not plan.holds_states else None,
            sinks=plan.retention.sinks if plan.retention else 0,
            kv_bytes_per_token=per_token,
            state_bytes=plan.state_bytes,
            checkpoint=plan.retention.checkpoint if plan.retention else 0,
        )
        for plan, per_token in zip(plans, kv_bytes_per_token, strict=True)
    ]


def _max_blocks(retention: RetentionPolicy, block_size: int, demands: Demands) -> int:
    """Return the maximum blocks of a step: each sequence's window plus an unaligned start, and the step's tokens."""
    each = retention.max_blocks(1, block_size) + 1
    return demands.max_num_seqs * each - (-demands.max_num_batched_tokens // block_size)
