"""The reducer on a small handwritten run."""

from typing import get_args

import pytest
from msgspec.structs import replace

from engine.trace.apply import apply
from engine.trace.operation_effects import OPERATIONS
from engine.trace.operations import RELEASED, Allocate, Free, Op, Release, Share, Write
from engine.trace.records import BatchEntry, BlockGroup, Header, StepRecord, Timing
from engine.trace.state import State, TraceStateError, copy_state, empty_state, initial_state, memory_figures


def replay(header: Header, records: list[StepRecord]) -> list[State]:
    state = initial_state(header)
    return [copy_state(apply(state, record)) for record in records]


def test_the_reducer_has_a_handler_for_each_operation() -> None:
    assert set(OPERATIONS) == set(get_args(Op))


def test_a_prompt_waits_and_then_fills_two_blocks(header: Header, records: list[StepRecord]) -> None:
    waiting, prefilled, _ = replay(header, records)
    assert waiting.waiting == [0] and waiting.free_queues[0] == [0, 1, 2, 3]
    assert prefilled.running == [0] and prefilled.free_queues[0] == [2, 3]
    assert prefilled.sequences[0].block_tables == [[0, 1]]
    assert [b.token_ids for b in prefilled.blocks] == [[65, 66], [67], [], []]
    assert prefilled.blocks[0].block_hash == b"h0" and prefilled.blocks[1].block_hash is None


def test_a_sampled_token_has_no_slot_until_the_next_step(header: Header, records: list[StepRecord]) -> None:
    _, prefilled, done = replay(header, records)
    assert prefilled.sequences[0].token_ids == [65, 66, 67, 68]
    assert prefilled.sequences[0].token_bytes[-1] == b"D"
    assert prefilled.sequences[0].num_computed_tokens == 3
    assert done.sequences[0].token_ids == [65, 66, 67, 68, 69]


def test_a_freed_block_with_a_hash_goes_to_the_back_of_the_queue(header: Header, records: list[StepRecord]) -> None:
    done = replay(header, records)[-1]
    assert done.free_queues[0] == [1, 2, 3, 0]
    assert done.blocks[0].token_ids == [65, 66], "a cached block keeps its content"
    assert done.blocks[1].token_ids == [], "a block without a hash is empty once free"
    assert done.sequences[0].status == "finished" and done.finished == [0]


def test_memory_figures_count_slots_and_bytes(header: Header, records: list[StepRecord]) -> None:
    """2 held blocks have 4 slots of 256 bytes. 3 slots, 192 bytes, are filled, and 1 is wasted."""
    _, prefilled, done = replay(header, records)
    memory = memory_figures(prefilled)
    assert (memory.blocks_held, memory.blocks_cached, memory.blocks_free) == (2, 0, 2)
    assert (memory.tokens_held, memory.slots_wasted, memory.bytes_held, memory.bytes_used) == (3, 1, 256, 192)
    after = memory_figures(done)
    assert (after.blocks_held, after.blocks_cached, after.blocks_free, after.bytes_cached) == (0, 1, 3, 128)


def test_a_copied_state_is_independent(header: Header, records: list[StepRecord]) -> None:
    state = apply(initial_state(header), records[0])
    copy = copy_state(state)
    before = copy_state(copy)
    apply(state, records[1])
    assert copy == before != state


def record_with(index: int, *ops: object) -> StepRecord:
    group = BlockGroup(layers=[0], first_block=0, num_blocks=0, kv_bytes_per_token=1)
    memory = memory_figures(empty_state(2, [group]))
    return StepRecord(index=index, kind="step", step=1, ops=list(ops), timing=Timing(at=0), memory=memory)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "op",
    [
        Allocate(seq_id=0, block_id=3, logical=0),  # not the head of the queue
        Allocate(seq_id=9, block_id=0, logical=0),  # no such sequence
        Allocate(seq_id=0, block_id=0, logical=4),  # a hole in the table
        Share(seq_id=0, block_id=77, logical=0, revived=False),  # no such block
        Write(seq_id=0, start=2, num_tokens=1),  # no token before it is computed
        Free(seq_id=0, block_id=0, to="front"),  # block is not held
        Release(seq_id=0, block_id=0, logical=0, reason="window", to="front"),  # block is not held
    ],
    ids=lambda op: repr(op)[:60],
)
def test_an_operation_that_contradicts_the_state_is_refused(
    header: Header, records: list[StepRecord], op: object
) -> None:
    state = apply(initial_state(header), records[0])
    with pytest.raises(TraceStateError, match="record 1, operation 0"):
        apply(state, record_with(1, op))


@pytest.mark.parametrize(
    "op",
    [
        Release(seq_id=0, block_id=0, logical=0, reason="window", to=None),  # no other sequence holds it
        Release(seq_id=0, block_id=1, logical=0, reason="window", to="back"),  # entry 0 is another block
        Release(seq_id=0, block_id=1, logical=1, reason="window", to="front"),  # last entry of the table
        Release(seq_id=0, block_id=0, logical=-2, reason="window", to="back"),
    ],
    ids=lambda op: repr(op)[:60],
)
def test_a_release_that_contradicts_the_table_is_refused(header: Header, records: list[StepRecord], op: object) -> None:
    state = replay(header, records[:2])[-1]
    with pytest.raises(TraceStateError, match="record 2, operation 0"):
        apply(state, record_with(2, op))


def test_a_released_entry_stays_until_the_next_block_is_freed(header: Header, records: list[StepRecord]) -> None:
    """Two of three computed tokens of table [0, 1] are in block 0. Freeing block 1 also removes the released entry."""
    state = replay(header, records[:2])[-1]
    apply(state, record_with(2, Release(seq_id=0, block_id=0, logical=0, reason="window", to="back")))
    assert state.sequences[0].block_tables == [[RELEASED, 1]]
    assert state.free_queues[0] == [2, 3, 0] and state.blocks[0].token_ids == [65, 66], (
        "a cached block keeps its content"
    )
    memory = memory_figures(state)
    assert (memory.blocks_held, memory.tokens_held, memory.tokens_logical) == (1, 1, 1)
    apply(state, record_with(3, Free(seq_id=0, block_id=1, to="front")))
    assert state.sequences[0].block_tables == [[]]


def test_a_gap_in_the_log_is_refused(header: Header, records: list[StepRecord]) -> None:
    with pytest.raises(TraceStateError, match="record 2 cannot follow record -1"):
        apply(initial_state(header), records[2])


def test_a_header_with_too_many_cpu_blocks_is_refused(header: Header) -> None:
    """Each group of layers has its own CPU blocks, so that many small groups and a large store need terabytes."""
    groups = [BlockGroup(layers=[i], first_block=i, num_blocks=1, kv_bytes_per_token=1) for i in range(2)]
    too_many = replace(header, block_groups=groups, engine={**header.engine, "swap_space": 1 << 18})
    with pytest.raises(TraceStateError, match=r"engine\.swap_space must be a whole number from 0 to 131072"):
        initial_state(too_many)


def test_repeated_layers_in_block_groups_are_refused(header: Header) -> None:
    twice = [BlockGroup(layers=[0], first_block=4 * i, num_blocks=4, kv_bytes_per_token=1) for i in range(2)]
    with pytest.raises(TraceStateError, match=r"block_groups have the layers \[0, 0\], not each of the model's 2 once"):
        initial_state(replace(header, block_groups=twice))


@pytest.mark.parametrize("num_layers", [-1, 0, 1 << 40])
def test_a_model_without_layers_or_with_too_many_is_refused(header: Header, num_layers: int) -> None:
    with pytest.raises(TraceStateError, match=r"model\.num_layers must be from 1 to 4096"):
        initial_state(replace(header, model=replace(header.model, num_layers=num_layers)))


def test_a_batch_of_an_unsubmitted_sequence_is_refused(header: Header, records: list[StepRecord]) -> None:
    entry = BatchEntry(seq_id=99, phase="decode", start=0, token_ids=[1], context_len=1, samples=True)
    invalid = replace(records[1], batch=[entry])
    state = apply(initial_state(header), records[0])
    with pytest.raises(TraceStateError, match="its batch has a sequence 99"):
        apply(state, invalid)
