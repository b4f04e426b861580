"""Preemption and resumption at block size 4, with exact blocks."""

from engine.trace.operations import Admit, Allocate, Defer, Free, Lookup, Preempt, Sample, Write
from tests.unit.scheduling.fake_engine import FakeEngine, facts, names, of_type

PROMPT = list(range(100, 112))  # 12 tokens = 3 full blocks


def test_the_last_admitted_sequence_is_preempted_and_resumes() -> None:
    """Prompts of 8 and 7 tokens hold all 4 blocks. The 9th token of sequence 0 preempts sequence 1, although that has
    room for its 8th token. Sequence 1 resumes after 0 has finished, with the same output.
    """
    engine = FakeEngine(num_blocks=4)
    engine.add(PROMPT[:8], max_tokens=3)
    engine.add([1, 2, 3, 4, 5, 6, 7], max_tokens=6)
    engine.step()
    ops = engine.step()
    assert names(ops) == ["free", "free", "preempt", "allocate", "defer", "write", "sample"]
    assert facts(ops, Preempt, "seq_id", "for_seq_id", "num_computed_tokens", "queue_position") == [(1, 0, 7, 0)]
    assert facts(ops, Free, "block_id", "to") == [(3, "front"), (2, "back")]
    assert facts(ops, Allocate, "block_id") == [(3,)]
    # its 8 tokens need 2 blocks: block 2 hits, and no other one is free
    assert facts(ops, Defer, "reason", "needed", "available") == [("step_preempted", 1, 0)]
    rest = engine.run()
    assert facts(rest, Admit, "seq_id", "num_cached_tokens", "resumed") == [(1, 4, True)]
    assert engine.sequences[1].num_preemptions == 1
    assert [engine.output(i) for i in (0, 1)] == [engine.expected(i) for i in (0, 1)]


def test_a_resumed_sequence_computes_only_tokens_that_do_not_hit() -> None:
    """Sequence 0 holds 2 of 5 blocks and needs a third one for its 9th token. Sequence 1 is preempted with 9 computed
    and 10 known tokens in 3 blocks. Block 4 is reallocated, 2 and 3 stay cached, and it resumes with 8 hit tokens and
    computes 2 (nano-vllm#211).
    """
    engine = FakeEngine(num_blocks=5)
    engine.add([9] * 7, max_tokens=3)
    engine.add(PROMPT[:8], max_tokens=6)
    engine.step()
    engine.step()
    (preempted,) = of_type(engine.step(), Preempt)
    assert (preempted.seq_id, preempted.num_computed_tokens) == (1, 9)
    ops = engine.step()
    assert facts(ops, Lookup, "seq_id", "num_tokens", "num_hit_tokens") == [(1, 10, 8)]
    assert facts(ops, Write, "seq_id", "start", "num_tokens") == [(1, 8, 2)]
    assert facts(ops, Sample, "seq_id") == [(1,)], "samples only at its last position"
    engine.run()
    assert engine.output(1) == engine.expected(1)


def test_several_victims_are_requeued_in_order_of_admission() -> None:
    """Three sequences hold one full block each. The growth of sequence 0 preempts the last admitted one first."""
    engine = FakeEngine(num_blocks=3)
    for i in range(3):
        engine.add([i] * 4, max_tokens=5)
    engine.step()
    ops = engine.step()
    # 0 gets the block of 2; 1 is now the last admitted, finds no block and preempts itself
    assert facts(ops, Preempt, "seq_id", "for_seq_id", "queue_position") == [(2, 0, 0), (1, 1, 0)]
    assert [s.seq_id for s in engine.scheduler.waiting] == [1, 2]
    engine.run()
    assert [engine.output(i) for i in range(3)] == [engine.expected(i) for i in range(3)]


def test_a_sequence_always_advances_in_a_full_pool() -> None:
    """Each of three sequences needs all 3 blocks at its end (4 + 9 - 1 = 12 slots, vllm#1607)."""
    engine = FakeEngine(num_blocks=3)
    for i in range(3):
        engine.add([i] * 4, max_tokens=9)
    ops = engine.run(limit=60)
    assert of_type(ops, Preempt)
    assert engine.replay.state.finished == [0, 1, 2]
    assert [engine.output(i) for i in range(3)] == [engine.expected(i) for i in range(3)]


def test_a_scheduled_victim_returns_its_token_budget() -> None:
    """Given 6 blocks and budget 10, 0 (priority 9, 11 tokens), 1 (priority 0, 8 tokens) and 2 (priority 5, 1 of 20
    prompt tokens) hold 3, 2 and 1 blocks. 0 is scheduled with its 12th token when 1 finds no block for its 9th and
    preempts 0. Then 1 gets 1 token, and 2 the other 9 tokens of the budget instead of 8.
    """
    engine = FakeEngine(num_blocks=6, max_num_batched_tokens=10, policy="priority")
    engine.add(PROMPT[:10], max_tokens=4, priority=9)
    engine.step()
    engine.add([1] * 8, max_tokens=4, priority=0)
    engine.add([2] * 20, max_tokens=4, priority=5)
    assert facts(engine.step(), Write, "seq_id", "start", "num_tokens") == [(0, 10, 1), (1, 0, 8), (2, 0, 1)]
    ops = engine.step()
    assert facts(ops, Preempt, "seq_id", "for_seq_id", "num_computed_tokens") == [(0, 1, 11)]
    assert facts(ops, Write, "seq_id", "start", "num_tokens") == [(1, 8, 1), (2, 1, 9)]
    engine.run()
    assert [engine.output(i) for i in range(3)] == [engine.expected(i) for i in range(3)]


def test_the_worst_priority_preempts_itself() -> None:
    """0 (priority 7) fills its block, and 1 (priority 1) holds 2. 0 needs a second of 3 blocks and preempts itself."""
    engine = FakeEngine(num_blocks=3, policy="priority")
    engine.add([1] * 3, max_tokens=6, priority=7)
    engine.step()
    engine.add([3] * 7, max_tokens=3, priority=1)
    engine.step()  # 0 at 4 tokens in 1 block, 1 at 7 tokens in 2
    ops = engine.step()
    assert facts(ops, Preempt, "seq_id", "for_seq_id") == [(0, 0)]
    assert facts(ops, Write, "seq_id", "start", "num_tokens") == [(1, 7, 1)]
    engine.run()
    assert [engine.output(i) for i in range(2)] == [engine.expected(i) for i in range(2)]
