"""Conversion of the trace's block ids to indices and slots of a layer's tensors, for one step."""

import torch

from engine.cache.attention_span import AttentionSpan
from engine.cache.block_groups import GroupPlan
from engine.model.batch import SequenceSlice, SlotTable, StepBatch
from engine.trace.operations import RELEASED

FULL, WINDOWED = AttentionSpan(None), AttentionSpan(4)
GROUPS = [GroupPlan([0], frozenset([FULL]), None, 10), GroupPlan([1], frozenset([WINDOWED]), None, 5, first_block=10)]


def batch(*slices: SequenceSlice) -> StepBatch:
    """Return a step with blocks of 2 tokens. The tensors of the second group begin with block 10."""
    return StepBatch(slices, SlotTable(2, 12, groups=GROUPS), torch.device("cpu"))


def decode_batch() -> StepBatch:
    """Return a step in which sequence 0 decodes position 5 and sequence 1 position 2."""
    return batch(
        SequenceSlice(0, [7], 5, [[3, 0, 4], [RELEASED, 12, 14]], True),
        SequenceSlice(1, [8], 2, [[5, 6], [10, 11]], True),
    )


def test_a_decode_step_writes_to_the_slots_of_each_groups_tensors() -> None:
    step = decode_batch()
    assert step.slot_mapping(FULL).tolist() == [4 * 2 + 1, 6 * 2]
    assert step.slot_mapping(WINDOWED).tolist() == [4 * 2 + 1, 1 * 2], "blocks 14 and 11 have indices 4 and 1"


def test_a_decode_step_reads_only_visible_keys() -> None:
    """The window of 4 at position 5 begins at position 2, in blocks of indices 2 and 4."""
    step = decode_batch()
    assert step.decode_keys(WINDOWED).slots[0].tolist() == [4, 5, 8, 9]
    assert step.decode_keys(FULL).slots[0].tolist() == [6, 7, 0, 1, 8, 9]


def test_block_tables_of_kernels_have_0_for_released_blocks() -> None:
    step = decode_batch()
    for tables in (step.decode_tables(WINDOWED).block_tables, step.step_tables(WINDOWED).block_tables):
        assert tables.tolist() == [[0, 2, 4], [0, 1, 0]] and tables.dtype == torch.int32
    assert step.decode_tables(FULL).block_tables.tolist() == [[3, 0, 4], [5, 6, 0]]


def test_a_mixed_step_writes_a_chunk_and_a_token() -> None:
    step = batch(
        SequenceSlice(0, [1, 2, 3], 0, [[2, 1], [13, 11]], True), SequenceSlice(1, [8], 2, [[5, 6], [10, 12]], True)
    )
    assert step.slot_mapping(FULL).tolist() == [4, 5, 2, 12]
    assert step.slot_mapping(WINDOWED).tolist() == [6, 7, 2, 4]
    [span] = step.prefills
    assert step.prefill_slots(span, WINDOWED)[1].tolist() == [6, 7, 2]
