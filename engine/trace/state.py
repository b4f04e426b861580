"""State of a run. It is a function of the log alone: `apply.apply` applies one record after another."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from engine.trace.free_order import FreeOrder
from engine.trace.geometry import TraceStateError as TraceStateError
from engine.trace.geometry import geometry
from engine.trace.limits import Int
from engine.trace.operations import RELEASED, FinishReason, Forget
from engine.trace.records import BlockGroup, Header, Memory

SequenceStatus = Literal["waiting", "receiving", "running", "preempted", "finished"]
RECENT_LOOKUPS = 100  # number of lookups in the hit rate


class Block(Struct, kw_only=True):
    """Physical block. `token_ids`: content of its filled slots, slot 0 first. A free block without a hash is empty."""

    block_id: Int
    ref_count: Int = 0
    block_hash: bytes | None = None
    token_ids: list[Int] = []
    logical: Int | None = None  # index in the block tables that contain it
    allocated_by: Int | None = None  # seq_id of the last allocation
    allocated_in: Int | None = None  # record index of the last allocation
    num_hits: Int = 0  # prefix-cache hits since that allocation
    last_hit_in: Int | None = None  # record index


class CpuBlock(Struct, kw_only=True):
    """Block of the CPU store. `token_ids`: its content for a swapped-out sequence."""

    cpu_block_id: Int
    seq_id: Int | None = None  # None = free
    logical: Int | None = None
    token_ids: list[Int] = []


class OutsideBlock(Struct, kw_only=True):
    """Place outside the pool of a monitored server. It is empty if `block_hash` is None."""

    place: Int
    instance: Int = 0
    medium: str = ""
    block_hash: bytes | None = None
    token_ids: list[Int] = []


class Sequence(Struct, kw_only=True):
    """Sequence of a request."""

    seq_id: Int
    request_id: str
    status: SequenceStatus = "waiting"
    token_ids: list[Int] = []  # prompt, then output
    token_bytes: list[bytes] = []
    num_prompt_tokens: Int = 0
    num_computed_tokens: Int = 0
    num_cached_tokens: Int = 0  # at its last admission
    block_tables: list[list[Int]] = []  # per group of layers; RELEASED for a released block
    num_preemptions: Int = 0
    max_tokens: Int = 0
    priority: Int = 0
    finish_reason: FinishReason | None = None
    submitted_in: Int = 0  # record index
    parent_seq_id: Int | None = None  # sequence from which it was forked
    cumulative_logprob: float = 0.0  # sum over its output tokens, raw distribution; a fork begins with its parent's
    cpu_block_table: list[Int] = []  # blocks of the CPU store while swapped out
    rank: Int | None = None  # rank among the sequences of its completed request, 0 = best
    score: float | None = None  # ranking score
    transfer: str | None = None  # id of the KV transfer between instances
    instance: Int = 0  # index of its instance
    chosen: list[list[Int]] = []  # [position, token id] of future tokens set by `choose`, by position
    forgotten: list[Forget] = []  # tokens that heads have forgotten, in order
    pinned: list[Int] = []  # positions that no head forgets, ascending


class State(Struct, kw_only=True, dict=True):
    """State after record `index` (-1: before the first)."""

    index: Int = -1
    step: Int = 0
    block_size: Int
    block_groups: list[BlockGroup]
    blocks: list[Block]  # blocks of all groups, by id
    free_queues: list[list[Int]]  # per group: block ids, head (allocated next) first
    waiting: list[Int] = []  # seq ids, head (admitted next) first; including preempted sequences
    running: list[Int] = []  # seq ids in order of admission
    receiving: list[Int] = []  # seq ids waiting for blocks of another instance, in order
    holding: list[Int] = []  # ids of finished sequences whose blocks are held for another instance
    finished: list[Int] = []  # seq ids in order of finishing, without dropped ones
    finished_kept: Int | None = None  # maximum of `finished` at the start of a record, without `holding`; None = all
    num_forgotten: Int = 0  # number of finished sequences dropped from the state
    sequences: dict[Int, Sequence] = {}
    cpu_blocks: list[CpuBlock] = []  # blocks of the CPU store, by id
    outside: list[OutsideBlock] = []  # places outside the pools of monitored servers
    recent_lookups: list[list[Int]] = []  # [num_tokens, num_hit_tokens] of the last RECENT_LOOKUPS first admissions

    @cached_property
    def own_groups(self) -> list[range]:
        """Layer groups of each instance. It is not compared or encoded."""
        instances = [group.instance for group in self.block_groups]
        firsts = [instances.index(i) for i in range(instances[-1] + 1)]
        return [range(first, first + instances.count(i)) for i, first in enumerate(firsts)]

    @cached_property
    def free_order(self) -> FreeOrder:
        """Index over the free queues. It is not compared or encoded."""
        return FreeOrder(self.free_queues)


def initial_state(header: Header) -> State:
    """Return the state before the first record, in which every block is free.

    Raises:
        TraceStateError: the header describes invalid pools.
    """
    return empty_state(*geometry(header))


def empty_state(
    block_size: int, groups: list[BlockGroup], swap_space: int = 0, finished_kept: int | None = None
) -> State:
    """Return a state in which every block is free. `swap_space`: blocks of the CPU store per group."""
    return State(
        block_size=block_size,
        block_groups=groups,
        blocks=[Block(block_id=i) for i in range(sum(group.num_blocks for group in groups))],
        free_queues=[list(range(g.first_block, g.first_block + g.num_blocks)) for g in groups],
        cpu_blocks=[CpuBlock(cpu_block_id=i) for i in range(swap_space * len(groups))],
        finished_kept=finished_kept,
    )


def copy_state(state: State) -> State:
    """Return an independent copy."""
    return State(
        index=state.index,
        step=state.step,
        block_size=state.block_size,
        block_groups=state.block_groups,
        blocks=[replace(b, token_ids=list(b.token_ids)) for b in state.blocks],
        free_queues=[list(queue) for queue in state.free_queues],
        waiting=list(state.waiting),
        running=list(state.running),
        receiving=list(state.receiving),
        holding=list(state.holding),
        finished=list(state.finished),
        finished_kept=state.finished_kept,
        num_forgotten=state.num_forgotten,
        sequences={i: copy_sequence(s) for i, s in state.sequences.items()},
        cpu_blocks=[replace(b, token_ids=list(b.token_ids)) for b in state.cpu_blocks],
        outside=[replace(b, token_ids=list(b.token_ids)) for b in state.outside],
        recent_lookups=list(state.recent_lookups),  # the pairs themselves never change
    )


def memory_figures(state: State) -> Memory:
    """Return the pool usage of a state, by counting its blocks and slots."""
    return Memory.total([_group_memory(state, index) for index in range(len(state.block_groups))])


def _group_memory(state: State, index: int) -> Memory:
    group, size, num_groups = state.block_groups[index], state.block_size, len(state.block_groups)
    blocks = state.blocks[group.first_block : group.first_block + group.num_blocks]
    held = [b for b in blocks if b.ref_count > 0]
    swap_blocks = len(state.cpu_blocks) // num_groups
    return Memory.counted(
        num_blocks=len(blocks),
        block_size=size,
        blocks_held=len(held),
        blocks_cached=sum(1 for b in blocks if b.ref_count == 0 and b.block_hash is not None),
        tokens_held=sum(len(b.token_ids) for b in held),
        tokens_logical=sum(_tokens_in_table(state.sequences[i], index, size) for i in _with_blocks(state)),
        kv_bytes_per_token=group.kv_bytes_per_token,
        state_bytes=group.state_bytes,
        swap_blocks=swap_blocks,
        swap_blocks_held=sum(
            1 for b in state.cpu_blocks[index * swap_blocks : (index + 1) * swap_blocks] if b.seq_id is not None
        ),
    )


def _with_blocks(state: State) -> list[int]:
    """Return the sequences that may have blocks. Waiting sequences have blocks only if they have received them."""
    return [*state.running, *state.receiving, *state.holding, *state.waiting]


def _tokens_in_table(sequence: Sequence, group: int, block_size: int) -> int:
    """Return the number of computed tokens in a group's blocks of the sequence. Released blocks were full."""
    if not sequence.block_tables[group]:
        return 0  # its content is in the CPU store
    return sequence.num_computed_tokens - sequence.block_tables[group].count(RELEASED) * block_size


def held_blocks(sequence: Sequence) -> list[int]:
    """Return the blocks in a sequence's tables, group by group, in logical order."""
    return [block_id for table in sequence.block_tables for block_id in table if block_id != RELEASED]


def copy_sequence(sequence: Sequence) -> Sequence:
    """Return an independent copy."""
    return replace(
        sequence,
        token_ids=list(sequence.token_ids),
        token_bytes=list(sequence.token_bytes),
        block_tables=[list(table) for table in sequence.block_tables],
        cpu_block_table=list(sequence.cpu_block_table),
        chosen=list(sequence.chosen),  # the pairs themselves never change
        forgotten=list(sequence.forgotten),
        pinned=list(sequence.pinned),
    )
