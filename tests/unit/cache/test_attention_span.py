"""Blocks retained by an attention span, and the effect of releases on tables, free queue and hits."""

from itertools import product

import pytest

from engine.cache.attention_span import AttentionSpan, RetentionPolicy, WindowPolicy, reaches_of, retention_of
from engine.cache.block_pool import BlockPool
from engine.cache.cache_figures import BlockDemand
from engine.cache.prefix_index import GroupIndex, PrefixIndex
from engine.cache.prefix_memory import EvictedBlocks
from engine.trace.operations import RELEASED, Evict, Free, Release, Share
from tests.unit.cache.replay import CacheRun


def test_retention_follows_the_widest_span_of_a_group() -> None:
    def retained(windows: list[int | None], policy: WindowPolicy | None = None) -> RetentionPolicy | None:
        return retention_of(reaches_of(windows, policy), policy)

    assert retained([4, 8, 6]) == RetentionPolicy(8, 0, "window")
    assert retained([4, None, 4]) is None
    assert retained([None, None], WindowPolicy(6, 2)) == RetentionPolicy(6, 2, "policy")
    assert retained([4, None], WindowPolicy(6, 2)) == RetentionPolicy(6, 2, "policy")
    assert retained([4, 5], WindowPolicy(6, 2)) == RetentionPolicy(5, 0, "window"), "windows narrower than the policy"
    assert WindowPolicy(6, 2).reach(0, 8) == AttentionSpan(6, 2) and WindowPolicy(6, 2).reach(0, 6) == AttentionSpan(6)


def test_the_policys_pattern_exempts_every_nth_layer() -> None:
    assert reaches_of([None] * 4, WindowPolicy(6, 2, pattern=2)) == [AttentionSpan(6, 2), AttentionSpan(None)] * 2
    assert reaches_of([4, 9, 9], WindowPolicy(6, pattern=3)) == [AttentionSpan(4), AttentionSpan(6), AttentionSpan(9)]


def test_exactly_the_blocks_visible_to_the_next_query_are_retained() -> None:
    """The query at n and later ones attend to [0, sinks) and to positions from n - window + 1 on."""
    for window, sinks, block_size in product([2, 3, 7], [0, 1, 4], [1, 2, 3, 5]):
        retention = RetentionPolicy(window, sinks, "policy")
        for n in range(1, 40):
            released = range(retention.first(block_size), retention.end(n, block_size))
            for logical in range(-(-n // block_size)):
                positions = range(logical * block_size, (logical + 1) * block_size)
                visible = any(p < sinks or p >= n - window + 1 for p in positions)
                assert (logical in released) == (not visible), (n, logical)


def test_blocks_behind_the_window_are_released() -> None:
    """Given window 4 the query at 7 attends to positions 4 to 7, so blocks 0 and 1 of 2 positions each are released.
    They have hashes and go to the back of the free queue, the last one first.
    """
    run = CacheRun(6, 2, retention=RetentionPolicy(4, 0, "window"))
    run.run(0, [1, 2, 3, 4, 5, 6, 7])
    assert run.table(0) == [RELEASED, RELEASED, 2, 3]
    assert list(run.manager.groups[0].pool.free_queue) == [4, 5, 1, 0]
    memory = run.manager.memory()
    assert (memory.blocks_held, memory.tokens_held, memory.tokens_logical) == (2, 3, 3), "positions 4, 5 and 6"
    assert run.append(0, 8) is not None and run.table(0) == [RELEASED, RELEASED, 2, 3]
    ops = run.append(0, 9)  # the query at 9 attends to 6 to 9, which releases block 2 (positions 4 and 5)
    assert ops is not None
    assert [op for op in ops if isinstance(op, Release)] == [
        Release(seq_id=0, block_id=2, logical=2, reason="window", to="back")
    ]
    assert run.table(0) == [RELEASED, RELEASED, RELEASED, 3, 4]
    assert [(op.block_id, op.to) for op in run.free(0) if isinstance(op, Free)] == [(4, "front"), (3, "back")]


def test_released_blocks_without_a_hash_go_to_the_front() -> None:
    """Block 1 is pushed to the front first, then block 0."""
    run = CacheRun(6, 2, enable_prefix_caching=False, retention=RetentionPolicy(4, 0, "window"))
    run.run(0, [1, 2, 3, 4, 5, 6, 7])
    assert list(run.manager.groups[0].pool.free_queue) == [0, 1, 4, 5]


def test_blocks_of_sinks_are_retained() -> None:
    """Three sinks occupy blocks 0 and 1 of 2 positions. Window 2 at n = 9 begins at 8 and releases blocks 2 and 3."""
    run = CacheRun(8, 2, retention=RetentionPolicy(2, 3, "policy"))
    run.run(0, list(range(9)))
    assert run.table(0) == [0, 1, RELEASED, RELEASED, 4]


def test_hits_behind_the_window_are_ignored() -> None:
    """The first sequence has released blocks 0 and 1, which are still cached. The second has the same prefix. With
    window 4 its query at 6 attends to positions 3 to 6, so block 0 is not shared.
    """
    run = CacheRun(5, 2, retention=RetentionPolicy(4, 0, "window"))
    run.run(0, [1, 2, 3, 4, 5, 6, 7])
    run.submit(1, [1, 2, 3, 4, 5, 6, 8])
    match = run.admit(1)
    assert match is not None and match.hits == [[RELEASED, 1, 2]] and match.num_tokens == 6
    run.promise(1, 7)
    ops = run.fold()
    assert [(op.block_id, op.revived) for op in ops if isinstance(op, Share)] == [(1, True), (2, False)]
    assert not [op for op in ops if isinstance(op, Release | Evict)]
    assert run.table(1) == [RELEASED, 1, 2, 4]


def test_hits_behind_the_window_take_no_block() -> None:
    """Given 4 blocks, the first sequence holds blocks 2 and 3, and 0 and 1 are free and cached. The second hits 1 and 2
    and allocates block 0, which is behind its window.
    """
    run = CacheRun(4, 2, retention=RetentionPolicy(4, 0, "window"))
    run.run(0, [1, 2, 3, 4, 5, 6, 7])
    run.submit(1, [1, 2, 3, 4, 5, 6, 9])
    match = run.manager.lookup(1, run.tokens[1])
    assert run.manager.demand(1, 7, match.hits) == BlockDemand(1, 1)
    assert run.admit(1) is not None
    run.fold()
    assert run.table(1) == [RELEASED, 1, 2, 0]


def test_an_evicted_beginning_does_not_prevent_a_hit_under_a_window() -> None:
    """The first of three cached blocks is evicted. With window 4 the query at 6 does not attend to it."""
    run = CacheRun(5, 2, retention=RetentionPolicy(4, 0, "window"))
    run.run(0, [1, 2, 3, 4, 5])  # releases block 0
    for token in (6, 7):
        run.append(0, token)  # releases block 1
    run.run(1, [9, 9, 9])  # allocates the last free block and block 0
    run.submit(2, [1, 2, 3, 4, 5, 6, 8])
    match = run.manager.lookup(2, run.tokens[2])
    assert (match.hits, match.verdict) == ([[RELEASED, 1, 2]], "hit")
    run.submit(3, [1, 2, 3, 4, 5])
    assert run.manager.lookup(3, run.tokens[3]).hits == [], "the query at 4 attends to position 1 in block 0"
    why = run.manager.explain(3, run.tokens[3], None, 0)
    assert why.reason == "evicted" and why.lost is not None and why.lost.block_id == 0


@pytest.mark.parametrize("window", [2, 3, 5])
@pytest.mark.parametrize("sinks", [0, 3])
def test_a_lookup_finds_the_longest_usable_prefix(window: int, sinks: int) -> None:
    """The hit is the longest n for which all blocks visible to the next query are cached."""
    size, tokens = 2, list(range(14))
    retention = RetentionPolicy(window, sinks, "policy")
    for missing in range(1 << 6):
        pool = BlockPool(6)
        index = PrefixIndex([GroupIndex(pool, retention, EvictedBlocks())], size, True)
        chain = index.chain(0, None)
        for logical in range(6):
            block, _ = pool.allocate()
            if not missing >> logical & 1:
                pool.cache_full_block(block, chain.hash_at(logical, tokens))
        hits = index.lookup(0, tokens, None, skip=False).hits

        def is_usable(n: int) -> bool:
            released = range(retention.first(size), retention.end(n * size, size))
            return not any(missing >> logical & 1 for logical in range(n) if logical not in released)  # noqa: B023

        longest = max(n for n in range(7) if is_usable(n))
        released = range(retention.first(size), retention.end(longest * size, size))
        expected = [RELEASED if logical in released else logical for logical in range(longest)]
        assert hits == ([expected] if expected else []), f"{missing:06b}"


def test_most_blocks_bounds_the_blocks_of_a_sequence() -> None:
    """The bound holds for steps of any size and is tight up to one block."""
    for step, size in product([1, 2, 5, 8], [1, 2, 3, 8]):
        for retention in (
            RetentionPolicy(1, 0, "policy"),
            RetentionPolicy(4, 0, "policy"),
            RetentionPolicy(7, 3, "policy"),
        ):
            most = 0
            for first_step in range(1, step + 1):
                computed, tokens = 0, first_step
                while computed < 60:
                    covered = -(-(computed + tokens) // size)
                    released = range(retention.first(size), retention.end(computed, size))
                    most = max(most, covered - len(released))
                    computed, tokens = computed + tokens, step
            bound = retention.max_blocks(step, size)
            assert most <= bound <= most + 1, (retention, most, bound)


def test_forks_and_swaps_keep_gaps_of_released_blocks() -> None:
    run = CacheRun(12, 2, swap_space=6, retention=RetentionPolicy(4, 0, "window"))
    run.run(0, [1, 2, 3, 4, 5, 6, 7])
    run.fork(0, 1)
    assert run.table(1) == [RELEASED, RELEASED, 2, 3]
    run.manager.take_moves()
    run.preempt(1)
    assert run.manager.snapshot().cpu_block_tables == {1: [0, 1]}, "two blocks of four"
    assert run.swap_in(1)
    assert [block_id == RELEASED for block_id in run.table(1)] == [True, True, False, False]
    run.check_visible(1)
    run.manager.take_moves()
    run.free(0, 1)
    assert sorted(run.manager.snapshot().free_queues[0]) == list(range(12))
