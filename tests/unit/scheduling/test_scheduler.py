"""Scheduler at block size 4: exact blocks, budgets, queues and orders of operations."""

import pytest

from engine.trace.operations import (
    Admit,
    Allocate,
    Copy,
    Defer,
    Discard,
    Finish,
    Free,
    Lookup,
    Preempt,
    Sample,
    Share,
    Write,
)
from tests.unit.scheduling.fake_engine import FakeEngine, facts, names, of_type, reference

PROMPT = list(range(100, 112))  # 12 tokens = 3 full blocks


def test_operations_of_a_prompt_are_in_order() -> None:
    """Nine tokens need 3 blocks, of which 2 get a hash."""
    engine = FakeEngine()
    engine.add(PROMPT[:9])
    assert names(engine.step()) == ["lookup", "admit", *["allocate"] * 3, *["cache"] * 2, "write", "sample"]
    assert names(engine.step()) == ["write", "sample"]


def test_operations_of_a_hit_are_in_order_and_evictions_precede_allocations() -> None:
    """Blocks 0 and 1 of the first prompt are cached. The second prompt revives 0, allocates 2 and 3 and evicts 1."""
    engine = FakeEngine(num_blocks=4)
    engine.add(PROMPT[:8], max_tokens=1)
    engine.step()
    engine.add([*PROMPT[:4], *range(9)], max_tokens=4)
    ops = engine.step()
    assert names(ops) == [
        *["lookup", "admit", "share", "allocate", "allocate", "evict", "allocate"],
        *["cache", "cache", "write", "sample"],
    ]
    assert facts(ops, Share, "block_id", "revived") == [(0, True)]
    assert facts(ops, Allocate, "block_id", "logical") == [(2, 1), (3, 2), (1, 3)]
    assert facts(ops, Admit, "num_cached_tokens", "resumed") == [(4, False)]
    assert facts(ops, Write, "start", "num_tokens") == [(4, 9)]


def test_a_finished_sequence_frees_its_blocks_tail_first() -> None:
    engine = FakeEngine()
    engine.add(PROMPT[:6], max_tokens=1)
    ops = engine.step()
    assert names(ops)[-4:] == ["sample", "free", "free", "finish"]
    assert facts(ops, Free, "block_id", "to") == [(1, "front"), (0, "back")]
    assert facts(ops, Finish, "reason", "detail") == [("length", "")]
    assert not engine.scheduler.has_unfinished


def test_running_sequences_are_scheduled_before_waiting_ones() -> None:
    """Given a budget of 8, sequence 0 decodes 1 token and the next prompt gets the remaining 7."""
    engine = FakeEngine(max_num_batched_tokens=8)
    engine.add(PROMPT[:3])
    engine.step()
    engine.add([9] * 12)
    assert facts(engine.step(), Write, "seq_id", "start", "num_tokens") == [(0, 3, 1), (1, 0, 7)]


def test_a_prompt_is_split_into_chunks_of_the_token_budget() -> None:
    """Given a budget of 5, 12 tokens are computed as 5, 5 and 2, which allocate 2, 1 and 0 blocks."""
    engine = FakeEngine(max_num_batched_tokens=5)
    engine.add(PROMPT)
    steps = [engine.step() for _ in range(3)]
    assert [facts(ops, Write, "start", "num_tokens") for ops in steps] == [[(0, 5)], [(5, 5)], [(10, 2)]]
    assert [len(of_type(ops, Allocate)) for ops in steps] == [2, 1, 0]
    assert [len(of_type(ops, Sample)) for ops in steps] == [0, 0, 1]


def test_a_spent_budget_defers_the_head_and_the_next_step_continues() -> None:
    engine = FakeEngine(max_num_batched_tokens=4)
    for _ in range(2):
        engine.add(PROMPT[:4])
    ops = engine.step()
    assert facts(ops, Defer, "seq_id", "reason", "needed", "available") == [(1, "token_budget", 1, 0)]
    assert of_type(ops, Lookup) and all(op.seq_id == 0 for op in of_type(ops, Lookup)), (
        "no lookup for the deferred sequence"
    )


def test_without_chunked_prefill_a_prompt_waits_until_it_fits_in_one_step() -> None:
    """Given a budget of 16, the first prompt takes 12. The second needs 12 and gets them in the next step."""
    engine = FakeEngine(max_num_batched_tokens=16, enable_chunked_prefill=False)
    engine.add(PROMPT)
    engine.add([9] * 12)
    first, second = engine.step(), engine.step()
    assert facts(first, Defer, "reason", "needed", "available") == [("token_budget", 12, 4)]
    assert facts(second, Write, "seq_id", "num_tokens") == [(0, 1), (1, 12)]


def test_max_num_seqs_limits_the_running_sequences() -> None:
    engine = FakeEngine(max_num_seqs=2)
    for i in range(3):
        engine.add([i, i], max_tokens=2)
    ops = engine.step()
    assert facts(ops, Defer, "seq_id", "reason", "needed", "available") == [(2, "max_num_seqs", 1, 0)]
    engine.step()
    assert facts(engine.step(), Admit, "seq_id") == [(2,)]


def test_a_deferred_head_of_the_queue_is_not_overtaken() -> None:
    """A single block of 4 is free. The head of the queue needs 2, and the next sequence, which needs 1, waits too."""
    engine = FakeEngine(num_blocks=4)
    engine.add(PROMPT[:10], max_tokens=3)
    engine.add([1, 2, 3, 4, 5], max_tokens=2)
    engine.add([7], max_tokens=2)
    ops = engine.step()
    assert facts(ops, Defer, "seq_id", "reason", "needed", "available") == [(1, "no_free_blocks", 2, 1)]
    assert facts(ops, Admit, "seq_id") == [(0,)]


def test_two_identical_prompts_in_one_step_share() -> None:
    """Given 9 equal tokens, the second prompt hits 8, which are not yet written, and computes 1 (nano-vllm#219)."""
    engine = FakeEngine()
    engine.add(PROMPT[:9])
    engine.add(PROMPT[:9])
    ops = engine.step()
    assert facts(ops, Share, "seq_id", "block_id", "revived") == [(1, 0, False), (1, 1, False)]
    assert facts(ops, Write, "seq_id", "start", "num_tokens") == [(0, 0, 9), (1, 8, 1)]
    engine.run()
    assert engine.output(0) == engine.output(1) == engine.expected(0)


def test_a_prompt_hits_blocks_that_are_computed_in_the_same_step() -> None:
    """Given budget 8, sequence 0 computes tokens 8..11 in step 2, and sequence 1 hits 12 of its 13 tokens."""
    engine = FakeEngine(max_num_batched_tokens=8)
    engine.add(PROMPT)
    engine.step()
    engine.add([*PROMPT, 1])
    ops = engine.step()
    assert facts(ops, Lookup, "verdict", "num_tokens", "num_hit_tokens") == [("hit", 13, 12)]
    assert facts(ops, Write, "seq_id", "start", "num_tokens") == [(0, 8, 4), (1, 12, 1)]
    engine.run()
    assert engine.output(1) == engine.expected(1)


def test_priority_admits_by_lowest_number_and_then_by_arrival() -> None:
    engine = FakeEngine(max_num_seqs=1, policy="priority")
    for priority in (5, 1, 5, 0):
        engine.add([priority, 1], max_tokens=1, priority=priority)
    assert [s.seq_id for s in engine.scheduler.waiting] == [3, 1, 0, 2]
    assert facts(engine.run(), Admit, "seq_id") == [(3,), (1,), (0,), (2,)]


def test_forks_count_as_running_and_share_the_prompt() -> None:
    """Four samples of 7 tokens share 2 blocks and then make 3 copies. max_num_seqs 4 admits no other sequence."""
    engine = FakeEngine(max_num_seqs=4, max_num_batched_tokens=4)
    engine.add(PROMPT[:7], max_tokens=2, num_forks=3)
    engine.add([1, 2], max_tokens=2)
    first = engine.step()
    assert facts(first, Defer, "seq_id", "reason", "needed", "available") == [(1, "max_num_seqs", 1, 0)]
    engine.step()
    ops = engine.step()
    assert facts(ops, Copy, "seq_id", "src", "dst") == [(0, 1, 2), (2, 1, 3), (3, 1, 4)]
    assert of_type(engine.run(), Admit)
    assert [engine.output(i) for i in (0, 2, 3, 4)] == [reference(PROMPT[:7], 2, offset=i) for i in range(4)]


def test_sequences_with_different_salts_share_nothing() -> None:
    engine = FakeEngine()
    engine.add(PROMPT, salt="a")
    engine.add(PROMPT, salt="b")
    engine.add(PROMPT, salt="a")
    assert [op.num_hit_tokens for op in of_type(engine.step(), Lookup)] == [0, 0, 8]


def test_abort_frees_blocks_and_drops_hashes() -> None:
    engine = FakeEngine(max_num_seqs=1)
    engine.add(PROMPT)
    engine.add(PROMPT)
    engine.step()
    engine.abort(1)
    engine.abort(0)
    assert engine.scheduler.abort("r0") == [] and not engine.scheduler.has_unfinished
    assert not engine.manager.prefixes.chains, "the hashes are dropped with the sequence"
    assert engine.manager.memory().blocks_held == 0
    assert engine.replay.state.finished == [1, 0]


def test_strategy_none_recomputes_every_token_and_keeps_no_block() -> None:
    engine = FakeEngine(recompute_all=True)
    engine.add(PROMPT[:3], max_tokens=3)
    first, second = engine.step(), engine.step()
    assert names(first) == ["lookup", "admit", "allocate", "write", "sample", "free", "discard"]
    assert names(second) == ["allocate", "write", "sample", "free", "discard"]
    assert facts(second, Write, "start", "num_tokens") == [(0, 4)]
    assert facts(first, Lookup, "verdict") == [("disabled",)]
    assert engine.tables() == {} and facts(second, Discard, "seq_id") == [(0,)]
    engine.run()
    assert engine.output(0) == engine.expected(0)


def test_strategy_none_lets_a_single_sequence_exceed_the_budget() -> None:
    """Given budget 8, 12 tokens are computed alone. Then 5 fit, and 4 others do not."""
    engine = FakeEngine(recompute_all=True, max_num_batched_tokens=8)
    engine.add(PROMPT, max_tokens=1)
    engine.add([1] * 5, max_tokens=1)
    engine.add([2] * 4, max_tokens=1)
    ops = engine.step()
    assert facts(ops, Write, "seq_id", "num_tokens") == [(0, 12)]
    assert facts(ops, Defer, "seq_id", "reason", "needed", "available") == [(1, "token_budget", 5, 0)]
    ops = engine.step()
    assert facts(ops, Write, "seq_id", "num_tokens") == [(1, 5)]
    assert facts(ops, Defer, "seq_id", "reason", "needed", "available") == [(2, "token_budget", 4, 3)]


def test_strategy_none_skips_sequences_without_room_instead_of_preempting() -> None:
    """Two sequences grow to 5 tokens and 2 blocks each in a pool of 3, so only one of them runs at a time."""
    engine = FakeEngine(recompute_all=True, num_blocks=3)
    engine.add([1] * 4, max_tokens=3)
    engine.add([2] * 4, max_tokens=3)
    assert facts(engine.step(), Write, "seq_id") == [(0,), (1,)]
    assert facts(engine.step(), Write, "seq_id") == [(0,)]
    ops = engine.run()
    assert not of_type(ops, Preempt)
    assert [engine.output(i) for i in (0, 1)] == [engine.expected(i) for i in (0, 1)]


def test_sampling_requires_that_all_tokens_are_computed() -> None:
    engine = FakeEngine(max_num_batched_tokens=4)
    engine.add(PROMPT)
    engine.step()
    with pytest.raises(ValueError, match="sequence 0 cannot sample: 4 of 12 tokens are computed"):
        engine.scheduler.append_token(engine.sequences[0], 1)


def test_impossible_sequences_are_refused_with_the_numbers() -> None:
    """12 prompt tokens + 6 - 1 = 17 slots need 5 blocks of 4, and 12 + 5 - 1 = 16 slots need 4."""
    engine = FakeEngine(num_blocks=4, max_num_seqs=2)
    with pytest.raises(ValueError, match="sequence 0 may need 5 blocks; the pool has 4"):
        engine.add(PROMPT, max_tokens=6)
    with pytest.raises(ValueError, match="at least one token"):
        engine.add([])
    with pytest.raises(ValueError, match="at least one token, and max_tokens"):
        engine.add([1], max_tokens=0)
    with pytest.raises(ValueError, match="becomes 3 sequences; max_num_seqs is 2"):
        engine.add([1], num_forks=2)
    assert not engine.scheduler.has_unfinished and not engine.replay.pending
    engine.add(PROMPT, max_tokens=5)
    engine.run()
    assert len(engine.output(0)) == 5
    unchunked = FakeEngine(enable_chunked_prefill=False, max_num_batched_tokens=8)
    with pytest.raises(ValueError, match="compute 9 tokens in one step without chunked prefill"):
        unchunked.add([1] * 8, max_tokens=2)


@pytest.mark.parametrize("reserve", [False, True])
def test_reserve_full_isl_waits_for_room_for_all_prompt_tokens(reserve: bool) -> None:
    """The first prompt holds 5 of 8 blocks. The second has room for a chunk of 8 tokens and not for its 4 blocks."""
    engine = FakeEngine(num_blocks=8, max_num_batched_tokens=9, reserve_full_isl=reserve)
    engine.add(list(range(17)), max_tokens=3)
    engine.step()
    engine.step()
    engine.add(list(range(20, 36)), max_tokens=1)
    ops = engine.step()
    assert facts(ops, Defer, "reason", "needed", "available") == ([("no_free_blocks", 4, 3)] if reserve else [])
    assert bool(of_type(ops, Admit)) is not reserve
    while engine.scheduler.has_unfinished:
        engine.step()
