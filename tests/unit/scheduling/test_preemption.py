"""Preemption when blocks run out, and the return; by hand at block size 4."""

from engine.trace.operations import Admit, Allocate, Defer, Free, Lookup, Preempt, Sample, Write
from tests.unit.scheduling.fake_engine import FakeEngine, facts, names, of_type

PROMPT = list(range(100, 112))  # 12 tokens = 3 full blocks


def test_the_most_recently_admitted_is_preempted_and_resumes_from_its_last_position() -> None:
    """4 blocks. Prompts of 8 and 7 tokens take them all; sequence 0's 9th token needs a block: sequence 1 goes, though
    it had room for its own 8th token. It returns when 0 is done, and its output is what it would have been."""
    engine = FakeEngine(num_blocks=4)
    engine.add(PROMPT[:8], max_tokens=3)
    engine.add([1, 2, 3, 4, 5, 6, 7], max_tokens=6)
    engine.step()
    ops = engine.step()
    assert names(ops) == ["free", "free", "preempt", "allocate", "defer", "write", "sample"]
    assert facts(ops, Preempt, "seq_id", "for_seq_id", "num_computed_tokens", "queue_position") == [(1, 0, 7, 0)]
    assert facts(ops, Free, "block_id", "to") == [(3, "front"), (2, "back")]
    assert facts(ops, Allocate, "block_id") == [(3,)]
    # its 8 tokens need 2 blocks, of which block 2 hits: 1 is needed, and none is left but the one that hits
    assert facts(ops, Defer, "reason", "needed", "available") == [("step_preempted", 1, 0)]
    rest = engine.run()
    assert facts(rest, Admit, "seq_id", "num_cached_tokens", "resumed") == [(1, 4, True)]
    assert engine.sequences[1].num_preemptions == 1
    assert [engine.output(i) for i in (0, 1)] == [engine.expected(i) for i in (0, 1)]


def test_preempted_then_hit_computes_exactly_what_is_missing() -> None:
    """5 blocks. Sequence 0 holds 2 and needs a third one for its 9th token; sequence 1 holds 3 for 9 tokens and goes,
    with 9 computed and 10 known. Block 4 is taken, 2 and 3 stay cached: it resumes with 8 hit and computes 2
    (nano-vllm#211)."""
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
    assert facts(ops, Sample, "seq_id") == [(1,)], "it samples from its last position, and only from there"
    engine.run()
    assert engine.output(1) == engine.expected(1)


def test_several_victims_return_in_the_order_in_which_they_were_admitted() -> None:
    """3 blocks, one each, all full. Sequence 0's growth takes the last admitted first; waiting is 1, 2 again."""
    engine = FakeEngine(num_blocks=3)
    for i in range(3):
        engine.add([i] * 4, max_tokens=5)
    engine.step()
    ops = engine.step()
    # 0 takes 2's block; 1 finds none, and is the most recently admitted now: it preempts itself
    assert facts(ops, Preempt, "seq_id", "for_seq_id", "queue_position") == [(2, 0, 0), (1, 1, 0)]
    assert [s.seq_id for s in engine.scheduler.waiting] == [1, 2]
    engine.run()
    assert [engine.output(i) for i in range(3)] == [engine.expected(i) for i in range(3)]


def test_at_full_use_of_the_pool_a_sequence_always_advances() -> None:
    """Each sequence needs all 3 blocks at its end (4 + 9 - 1 = 12 slots); three of them share 3 blocks
    (vllm#1607)."""
    engine = FakeEngine(num_blocks=3)
    for i in range(3):
        engine.add([i] * 4, max_tokens=9)
    ops = engine.run(limit=60)
    assert of_type(ops, Preempt)
    assert engine.replay.state.finished == [0, 1, 2]
    assert [engine.output(i) for i in range(3)] == [engine.expected(i) for i in range(3)]


def test_a_scheduled_victim_returns_its_token_budget() -> None:
    """Priority, 6 blocks, budget 10. Running: 0 (priority 9, 11 tokens, 3 blocks), 1 (priority 0, 8 tokens, 2 blocks)
    and 2 (priority 5, 1 of 20 prompt tokens, 1 block). 0 is in the batch with its 12th token when 1 finds no block for
    its 9th: 0 leaves, 1 takes one of its 3 blocks and 1 token, 2 the other 9 tokens (not 8) and 2 blocks."""
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


def test_the_worst_priority_preempts_itself_rather_than_a_better_one() -> None:
    """3 blocks. 0 (priority 7) fills its block of 4, 1 (priority 1) holds two; 0 needs a second one and goes itself."""
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
