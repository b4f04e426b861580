"""Reasons of allocations and frees in the operations."""

from collections import Counter
from collections.abc import Iterable

from engine.trace.operations import Allocate, Free, Op
from tests.unit.scheduling.fake_engine import FakeEngine, facts


def allocated(ops: Iterable[Op]) -> list[tuple[int, int, str | None]]:
    """Return sequence, logical block and reason of each allocation."""
    return facts(ops, Allocate, "seq_id", "logical", "reason")


def freed(ops: Iterable[Op]) -> Counter[tuple[int, str | None]]:
    return Counter(facts(ops, Free, "seq_id", "reason"))


def test_admission_chunks_decoding_and_finish_have_their_reasons() -> None:
    """Given budget 6, tokens 0..5 allocate blocks 0 and 1, and 6..9 block 2, which suffices until the 13th token."""
    engine = FakeEngine(max_num_batched_tokens=6)
    engine.add([1] * 10, max_tokens=4)
    assert allocated(engine.step()) == [(0, 0, "admission"), (0, 1, "admission")]
    assert allocated(engine.step()) == [(0, 2, "chunk")]
    ops = engine.run()
    assert allocated(ops) == [(0, 3, "append")], "for the 13th token"
    assert freed(ops) == {(0, "finish"): 4}


def test_preemption_and_resumption_have_their_reasons() -> None:
    """Two prompts of 4 hold one of 3 blocks each. 0 gets the third for its 5th token, and 1 finds none."""
    engine = FakeEngine(num_blocks=3)
    for i in range(2):
        engine.add([i] * 4, max_tokens=4)
    engine.step()
    ops = engine.step()
    assert allocated(ops) == [(0, 1, "append")] and freed(ops) == {(1, "preempt"): 1}
    ops = engine.run()
    assert [reason for seq_id, _, reason in allocated(ops) if seq_id == 1] == ["resume"], "the first block hits"


def test_swap_out_and_swap_in_have_their_reasons() -> None:
    engine = FakeEngine(num_blocks=3, swap_space=4, enable_prefix_caching=False)
    for i in range(2):
        engine.add([i] * 4, max_tokens=4)
    engine.step()
    assert freed(engine.step()) == {(1, "swap"): 1}
    ops = engine.run()
    swapped_in = [(logical, reason) for seq_id, logical, reason in allocated(ops) if seq_id == 1]
    assert swapped_in == [(0, "swap_in"), (1, "resume")], "4 tokens are swapped in, and the 5th needs a block"


def test_a_copied_block_has_the_reason_copy() -> None:
    engine = FakeEngine()
    engine.add([1] * 6, max_tokens=2, num_forks=1)
    engine.step()
    assert allocated(engine.step()) == [(0, 1, "copy")], "the last owner writes in place"


def test_strategy_none_allocates_and_discards_all_blocks_in_every_step() -> None:
    engine = FakeEngine(recompute_all=True)
    engine.add([1] * 6, max_tokens=3)
    ops = engine.step()
    assert allocated(ops) == [(0, 0, "admission"), (0, 1, "admission")] and freed(ops) == {(0, "discard"): 2}
    ops = engine.step()
    assert allocated(ops) == [(0, 0, "recompute"), (0, 1, "recompute")] and freed(ops) == {(0, "discard"): 2}
