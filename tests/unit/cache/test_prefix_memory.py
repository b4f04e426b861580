"""Reasons for missed lookups at block size 4, through the scheduler."""

from array import array
from itertools import chain
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cache.prefix_memory import (
    EVICTED_BLOCKS,
    RECENT_SEQUENCES,
    EvictedBlocks,
    Explanation,
    LostBlock,
    PrefixMemory,
    common_prefix,
    common_prefix_of_parts,
)
from engine.trace.operations import Evict, Lookup
from engine.trace.state import RECENT_LOOKUPS
from tests.unit.scheduling.fake_engine import FakeEngine, of_type

PROMPT = list(range(100, 112))  # 12 tokens = 3 full blocks


def looked_up(engine: FakeEngine, prompt: list[int], **options) -> Lookup:
    """Admit a prompt and return its lookup."""
    seq_id = engine.add(prompt, max_tokens=1, **options)
    found: list[Lookup] = [op for op in of_type(engine.step(), Lookup) if op.seq_id == seq_id]
    return found[0]


def reason_of(lookup: Lookup) -> tuple[str, str | None, int | None, int]:
    return (lookup.verdict, lookup.reason, lookup.closest_seq_id, lookup.num_shared_tokens)


def test_the_first_prompt_shares_nothing() -> None:
    assert reason_of(looked_up(FakeEngine(), PROMPT)) == ("miss", "nothing_shared", None, 0)


def test_a_repeated_prompt_hits_all_allowed_tokens() -> None:
    """At most 8 of the prompt's 12 tokens hit. The last block is computed again."""
    engine = FakeEngine()
    looked_up(engine, PROMPT)
    assert reason_of(looked_up(engine, PROMPT)) == ("hit", None, 0, 12)


def test_a_common_prefix_shorter_than_a_block_gives_shared_too_short() -> None:
    """Three tokens are equal, and a block has 4."""
    engine = FakeEngine()
    looked_up(engine, PROMPT)
    looked_up(engine, [1, 2, 3, 4, 5])
    assert reason_of(looked_up(engine, [*PROMPT[:3], *range(9)])) == ("miss", "shared_too_short", 0, 3)


def test_a_differing_token_gives_differs() -> None:
    engine = FakeEngine()
    looked_up(engine, PROMPT)
    assert reason_of(looked_up(engine, [*PROMPT[:6], 0, *PROMPT[7:]])) == ("hit", "differs", 0, 6)


def test_an_earlier_sequence_ending_within_the_block_gives_earlier_ended() -> None:
    """Sequence 0 has 6 tokens and one output, so its second block is never full."""
    engine = FakeEngine()
    looked_up(engine, PROMPT[:6])
    output = engine.output(0)
    assert reason_of(looked_up(engine, [*PROMPT[:6], *output, *range(9)])) == ("hit", "earlier_ended", 0, 7)


def test_an_evicted_block_gives_evicted_and_the_evicting_sequence() -> None:
    """Sequence 1 needs all 3 blocks and evicts blocks 1 and 0 of sequence 0's prompt."""
    engine = FakeEngine(num_blocks=3)
    looked_up(engine, PROMPT[:8])
    looked_up(engine, list(range(9)))
    lookup = looked_up(engine, [*PROMPT[:8], 7])
    assert reason_of(lookup) == ("miss", "evicted", 0, 8)
    # records: submission, step, submission, step
    assert (lookup.lost_block_id, lookup.evicted_in, lookup.evicted_for) == (0, 3, 1)


def test_equal_tokens_under_another_salt_give_other_salt() -> None:
    engine = FakeEngine()
    looked_up(engine, PROMPT, salt="a")
    assert reason_of(looked_up(engine, PROMPT, salt="b")) == ("miss", "other_salt", 0, 12)


def test_uncomputed_tokens_of_an_earlier_sequence_give_not_computed() -> None:
    """Given a budget of 5, sequence 0 has computed one block of its 12 tokens when it is aborted."""
    engine = FakeEngine(max_num_batched_tokens=5)
    engine.add(PROMPT, max_tokens=1)
    engine.step()
    engine.abort(0)
    lookup = looked_up(engine, PROMPT)
    assert reason_of(lookup) == ("hit", "not_computed", 0, 12) and lookup.num_hit_tokens == 4


def test_short_disabled_and_skipped_lookups_have_no_reason() -> None:
    engine = FakeEngine()
    looked_up(engine, PROMPT)
    assert reason_of(looked_up(engine, PROMPT[:4])) == ("too_short", None, 0, 4)
    assert reason_of(looked_up(FakeEngine(enable_prefix_caching=False), PROMPT)) == ("disabled", None, None, 0)
    assert engine.manager.lookup(9, PROMPT, None, skip=True).verdict == "skipped"


def test_two_prompts_in_one_step_explain_each_other() -> None:
    engine = FakeEngine()
    engine.add(PROMPT[:9], max_tokens=1)
    engine.add([*PROMPT[:5], 1, 2, 3, 4], max_tokens=1)
    assert [reason_of(op) for op in of_type(engine.step(), Lookup)] == [
        ("miss", "nothing_shared", None, 0),
        ("hit", "differs", 0, 5),
    ]


def test_the_history_is_bounded_and_reports_forgotten() -> None:
    memory = PrefixMemory()
    for seq_id in range(RECENT_SEQUENCES + 1):
        memory.admitted(seq_id, [seq_id, 1, 2, 3, 4], None)
    assert memory.explain([0, 1, 2, 3, 9], None, 0, 4, False, None) == Explanation("nothing_shared")
    assert memory.explain([0, 1, 2, 3, 9, 9, 9, 9, 9], None, 4, 4, False, None) == Explanation("forgotten")
    assert memory.explain([1, 1, 2, 3, 9], None, 0, 4, False, None).closest_seq_id == 1
    evicted = EvictedBlocks()
    for number in range(EVICTED_BLOCKS + 1):
        evicted.add(str(number).encode(), LostBlock(number, number, 0))
    assert evicted.find(b"0") is None and evicted.find(b"1") == LostBlock(1, 1, 0)
    assert memory.explain([7], None, 0, 4, False, LostBlock(1, 1, 0)).reason == "evicted"


@pytest.mark.parametrize(
    ("a", "b", "shared"),
    [
        ([], [1], 0),
        ([1, 2, 3], [1, 2, 3], 3),
        ([1, 2, 3], [1, 2], 2),
        ([0], [1], 0),
        ([5] * 99 + [1], [5] * 99 + [2], 99),
    ],
)
def test_common_prefix_is_symmetric(a: list[int], b: list[int], shared: int) -> None:
    assert common_prefix(a, b) == common_prefix(b, a) == shared


def test_an_eviction_has_lifetime_idle_time_and_reuse_gaps() -> None:
    """Step 0 allocates block 0, steps 1 and 3 hit it, and step 4 needs both blocks. Block 0 lived for 4 steps, was idle
    for 1, and has 2 steps between its hits. Block 1 has no hash whenever it is free.
    """
    engine = FakeEngine(num_blocks=2)
    looked_up(engine, PROMPT[:5])
    looked_up(engine, PROMPT[:5])
    looked_up(engine, [1, 2, 3])
    looked_up(engine, PROMPT[:6])
    engine.add(list(range(7)), max_tokens=1)
    (evict,) = of_type(engine.step(), Evict)
    assert (evict.block_id, evict.seq_id, evict.lifetime_steps, evict.idle_steps) == (0, 4, 4, 1)
    assert (evict.num_hits, evict.reuse_gap_steps) == (2, [2])


def test_recent_lookups_are_counted_in_tokens() -> None:
    """Queries have 12, 12 and 3 tokens, and 8 of the second prompt hit. Old requests leave the window."""
    engine = FakeEngine()
    looked_up(engine, PROMPT)
    looked_up(engine, PROMPT)
    looked_up(engine, [1, 2, 3])
    assert engine.replay.state.recent_lookups == [[12, 0], [12, 8], [3, 0]]
    for _ in range(RECENT_LOOKUPS):
        looked_up(engine, [1, 2, 3])
    assert engine.replay.state.recent_lookups == [[3, 0]] * RECENT_LOOKUPS


Parts: TypeAlias = "list[array[int]]"
PARTS = st.lists(st.lists(st.integers(0, 1), max_size=5).map(lambda part: array("I", part)), max_size=6)


@given(PARTS, PARTS)
def test_common_prefixes_of_parts_equal_those_of_joined_tokens(one: Parts, other: Parts) -> None:
    joined = [list(chain.from_iterable(parts)) for parts in (one, other)]
    assert common_prefix_of_parts(one, other) == common_prefix(*joined)
    assert common_prefix_of_parts(one, one) == len(joined[0])
