"""Exact block tables at block size 4. Every operation is replayed and compared."""

from collections.abc import Callable

import pytest

from engine.cache.block_table import BlockTables
from engine.cache.cache_figures import BlockDemand
from engine.cache.guards import IntegrityError
from engine.cache.kv_cache_manager import KVCacheManager
from engine.cache.prefix_cache import PrefixMatch, hash_block
from engine.trace.operations import Allocate, Cache, Copy, Evict, Free, Share, Write
from tests.unit.cache.replay import KV_BYTES_PER_TOKEN, CacheRun

PROMPT = list(range(100, 112))  # 12 tokens = 3 full blocks


def test_a_prompt_allocates_the_first_blocks_and_hashes_full_ones() -> None:
    """Ten tokens fill blocks 0 and 1 and two slots of block 2."""
    run = CacheRun(8, 4)
    run.submit(0, PROMPT[:10])
    assert run.admit(0) == PrefixMatch([], 0, "miss")
    run.promise(0, 10)
    run.write(0, 10)
    ops = run.fold()[1:]
    h0 = hash_block(None, PROMPT[:4])
    h1 = hash_block(h0, PROMPT[4:8])
    assert ops == [
        Allocate(seq_id=0, block_id=0, logical=0, reason="admission"),
        Allocate(seq_id=0, block_id=1, logical=1, reason="admission"),
        Allocate(seq_id=0, block_id=2, logical=2, reason="admission"),
        Cache(seq_id=0, block_id=0, logical=0, block_hash=h0, parent_hash=None, token_ids=PROMPT[:4]),
        Cache(seq_id=0, block_id=1, logical=1, block_hash=h1, parent_hash=h0, token_ids=PROMPT[4:8]),
        Write(seq_id=0, start=0, num_tokens=10),
    ]
    assert run.table(0) == [0, 1, 2] and run.table(7) == []


def test_a_prefix_hit_shares_blocks_that_are_held() -> None:
    """The first 8 of 12 and 10 tokens are equal, so blocks 0 and 1 are shared."""
    run = CacheRun(8, 4)
    run.run(0, PROMPT)
    assert run.run(1, [*PROMPT[:8], 7, 7]) == PrefixMatch([[0, 1]], 8, "hit")
    assert run.table(1) == [0, 1, 3]
    assert run.manager.snapshot().ref_counts[:4] == [2, 2, 1, 1]


def test_a_prefix_hit_ends_at_the_first_block_that_differs() -> None:
    run = CacheRun(8, 4)
    run.run(0, PROMPT)
    assert run.run(1, [*PROMPT[:4], 0, *PROMPT[5:12]]) == PrefixMatch([[0]], 4, "hit")


def test_a_lookup_gives_a_verdict_and_changes_nothing() -> None:
    """At most 3 of 4 tokens can hit, less than a block. Of 5 tokens 4 can hit (nano-vllm#144)."""
    run = CacheRun(8, 4)
    run.run(0, PROMPT)
    lookup = run.manager.lookup
    assert lookup(1, PROMPT[:4]) == PrefixMatch([], 0, "too_short")
    assert lookup(2, PROMPT[:5]) == PrefixMatch([[0]], 4, "hit")
    assert lookup(3, [1, 2, 3, 4, 5]) == PrefixMatch([], 0, "miss")
    assert lookup(4, PROMPT[:5], "salt") == PrefixMatch([], 0, "miss")
    assert not run.replay.pending, "a lookup changes nothing"
    plain = CacheRun(8, 4, enable_prefix_caching=False)
    plain.run(0, PROMPT)
    assert plain.manager.lookup(1, PROMPT) == PrefixMatch([], 0, "disabled")
    assert plain.manager.snapshot().block_hashes == [None] * 8


def test_duplicates_are_kept_and_never_repointed() -> None:
    """Block 3 gets the hash of block 2. The table keeps block 3, and lookups find block 2 until it is reallocated."""
    run = CacheRun(5, 4)
    run.run(0, PROMPT)
    run.run(1, PROMPT)
    hashes = run.manager.snapshot().block_hashes
    assert hashes[2] == hashes[3] is not None and run.table(1) == [0, 1, 3]
    run.free(0)
    assert run.manager.lookup(2, [*PROMPT, 1]).block_ids == [0, 1, 2]
    assert run.manager.snapshot().free_queues[0] == [4, 2]
    run.run(3, [5, 6, 7, 8, 9])  # allocates 4, then 2
    assert run.table(3) == [4, 2]
    assert run.manager.lookup(2, [*PROMPT, 1]).block_ids == [0, 1, 3]


def test_blocks_are_freed_tail_first_and_hashed_ones_to_the_back() -> None:
    """Partial block 2 goes to the front, then 1 and 0 to the back, so the start of a prefix survives longest."""
    run = CacheRun(5, 4)
    run.run(0, PROMPT[:10])
    ops = run.free(0)
    assert ops[:3] == [
        Free(seq_id=0, block_id=2, to="front", reason="finish"),
        Free(seq_id=0, block_id=1, to="back", reason="finish"),
        Free(seq_id=0, block_id=0, to="back", reason="finish"),
    ]
    assert run.manager.snapshot().free_queues[0] == [2, 3, 4, 1, 0]
    memory = run.manager.memory()
    assert (memory.blocks_held, memory.blocks_cached, memory.blocks_free) == (0, 2, 3)
    assert memory.bytes_cached == 2 * 4 * KV_BYTES_PER_TOKEN


def test_a_hit_revives_free_blocks_in_place() -> None:
    run = CacheRun(5, 4)
    run.run(0, PROMPT[:10])
    run.free(0)
    run.submit(1, PROMPT[:10])
    run.admit(1)
    shares = [op for op in run.fold() if isinstance(op, Share)]
    assert [(s.block_id, s.logical, s.revived) for s in shares] == [(0, 0, True), (1, 1, True)]
    assert run.table(1) == [0, 1, 2] and run.manager.snapshot().free_queues[0] == [3, 4]


def test_a_reallocated_block_is_not_found_by_its_old_hash() -> None:
    """Blocks 0 and 1 cache a freed prompt. Nine other tokens allocate 2, then 1 and 0 with two evictions
    (nano-vllm#163).
    """
    run = CacheRun(3, 4)
    run.run(0, PROMPT[:8])
    run.free(0)
    assert run.manager.snapshot().free_queues[0] == [2, 1, 0]
    run.submit(1, list(range(9)))
    run.admit(1)
    kinds = [(type(op).__name__, op.block_id) for op in run.fold() if isinstance(op, Evict | Allocate)]
    assert kinds == [("Allocate", 2), ("Evict", 1), ("Allocate", 1), ("Evict", 0), ("Allocate", 0)]
    assert run.manager.lookup(2, PROMPT) == PrefixMatch([], 0, "miss")


def test_free_blocks_that_hit_do_not_count_as_available() -> None:
    """Two of 4 blocks are held, two are free and cached. A prompt of 12 tokens hits both free blocks and needs a third,
    so 2 - 2 = 0 blocks are available. The refused allocation changes nothing.
    """
    run = CacheRun(4, 4)
    run.run(0, PROMPT[:8])
    run.run(1, [1, 2, 3, 4, 5, 6, 7, 8])
    run.free(0)
    run.submit(2, PROMPT)
    match = run.manager.lookup(2, PROMPT)
    assert match.block_ids == [0, 1]
    assert run.manager.demand(2, 12, match.hits) == BlockDemand(1, 0)
    assert run.admit(2) is None
    run.free(1)
    assert run.manager.demand(2, 12, match.hits) == BlockDemand(1, 2)
    assert run.admit(2) == match


def test_the_first_writer_of_a_forked_tail_copies_and_the_last_owner_writes_in_place() -> None:
    """Seven tokens leave one slot in block 1. The first of two owners to write copies block 1 to 2, the second writes
    into 1, so 3 blocks are held.
    """
    run = CacheRun(8, 4)
    run.run(0, PROMPT[:7])
    run.fork(0, 1)
    assert run.manager.snapshot().ref_counts[:2] == [2, 2]
    ops = run.append(0, 50)
    assert ops is not None and ops[:2] == [
        Allocate(seq_id=0, block_id=2, logical=1, reason="copy"),
        Copy(seq_id=0, logical=1, src=1, dst=2),
    ]
    assert run.manager.take_moves()[0].copy == [(1, 2)] and run.manager.take_moves()[0].copy == []
    ops = run.append(1, 60)
    assert ops is not None and not any(isinstance(op, Allocate | Copy) for op in ops)
    assert (run.table(0), run.table(1)) == ([0, 2], [0, 1])
    assert run.manager.memory().blocks_held == 3


def test_a_fork_at_a_block_boundary_copies_nothing() -> None:
    """Eight tokens fill blocks 0 and 1, and each sequence's next token allocates a block."""
    run = CacheRun(8, 4)
    run.run(0, PROMPT[:8])
    run.fork(0, 1)
    run.append(0, 50)
    run.append(1, 60)
    assert run.manager.take_moves()[0].copy == []
    assert (run.table(0), run.table(1)) == ([0, 1, 2], [0, 1, 3])


def test_without_a_block_for_the_copy_the_write_is_refused() -> None:
    run = CacheRun(2, 4)
    run.run(0, PROMPT[:7])
    run.fork(0, 1)
    assert run.append(0, 50) is None
    run.free(1)
    assert run.manager.allocate(0, 8, "append"), "the last owner needs no copy"


def test_a_copy_to_a_reallocated_block_is_dropped() -> None:
    """Sequence 0 copies 1 to 2 and is freed in the same step, after which block 2 may be reallocated."""
    run = CacheRun(8, 4)
    run.run(0, PROMPT[:7])
    run.fork(0, 1)
    assert run.manager.allocate(0, 8, "append")
    run.free(0)
    assert run.manager.take_moves()[0].copy == []


def test_an_unwritten_block_loses_its_hash() -> None:
    run = CacheRun(8, 4)
    run.submit(0, PROMPT)
    run.admit(0)
    run.promise(0, 12)
    assert run.manager.lookup(1, PROMPT).num_tokens == 8
    assert run.manager.take_back([], []) == {0}
    run.free(0)
    assert run.manager.lookup(1, PROMPT).num_tokens == 0
    assert run.manager.snapshot().free_queues[0] == [0, 1, 2, 3, 4, 5, 6, 7]


def test_the_writer_of_a_shared_unwritten_block_does_not_copy_it() -> None:
    """Sequence 1 shares block 0 before sequence 0 has written it. Sequence 0 allocates again without a copy."""
    run = CacheRun(8, 4)
    run.submit(0, PROMPT)
    run.submit(1, PROMPT[:6])
    run.admit(0, 4)
    run.promise(0, 4)
    assert run.admit(1) == PrefixMatch([[0]], 4, "hit")
    assert run.manager.allocate(0, 12, "append")
    assert run.table(0) == [0, 2, 3] and run.manager.take_moves()[0].copy == []
    run.write(0, 12)
    run.write(1, 6)
    run.fold()


def test_diverging_forks_have_different_hashes_over_the_same_parent() -> None:
    run = CacheRun(8, 4)
    run.run(0, PROMPT[:7])
    run.fork(0, 1)
    caches = []
    for seq_id, token in ((0, 50), (1, 60)):
        caches += [op for op in run.append(seq_id, token) or [] if isinstance(op, Cache)]
    first, second = caches
    assert first.parent_hash == second.parent_hash and first.block_hash != second.block_hash
    for seq_id in (0, 1):
        for token in (1, 2, 3, 4):
            caches += [op for op in run.append(seq_id, token) or [] if isinstance(op, Cache)]
    assert len({op.block_hash for op in caches}) == 4


def test_the_last_slot_of_a_pool_is_usable() -> None:
    run = CacheRun(2, 4)
    run.run(0, PROMPT[:4])
    run.run(1, [1, 2, 3])
    assert run.append(1, 4) is not None
    memory = run.manager.memory()
    assert (memory.blocks_held, memory.slots_wasted, memory.blocks_free) == (2, 0, 0)
    assert run.append(1, 5) is None


def test_misuse_is_refused() -> None:
    run = CacheRun(8, 4)
    manager = run.manager
    run.run(0, PROMPT[:7])
    before = manager.snapshot()
    with pytest.raises(ValueError, match=r"cannot write positions \[5, 8\): 7 are computed"):
        manager.write(0, 5, 3)
    with pytest.raises(ValueError, match=r"cannot write positions \[7, 9\).*2 blocks of 4"):
        manager.write(0, 7, 2)
    with pytest.raises(ValueError, match="sequence 5 holds no blocks"):
        manager.write(5, 0, 1)
    with pytest.raises(ValueError, match="holds blocks already"):
        manager.allocate(0, 8, "append", [[0]])
    with pytest.raises(ValueError, match="sequence 0 holds blocks already"):
        manager.forget(0)
    with pytest.raises(ValueError, match="another cache_salt"):
        manager.lookup(0, PROMPT, "salt")
    with pytest.raises(ValueError, match="neither blocks nor tokens"):
        manager.cache_blocks(0, PROMPT, 12)
    run.fork(0, 1)
    with pytest.raises(ValueError, match="block 1 is shared: allocate must copy it"):
        manager.write(0, 7, 1)
    with pytest.raises(ValueError, match="block 1 is shared and unwritten"):
        manager.cache_blocks(0, PROMPT, 8)
    with pytest.raises(ValueError, match="sequence 1 holds blocks already"):
        manager.fork(0, 1, "again")
    assert manager.allocate(0, 8, "append")
    with pytest.raises(ValueError, match="copies are pending"):
        manager.fork(0, 2, "too early")
    manager.take_moves()
    manager.cache_blocks(0, PROMPT, 8)
    with pytest.raises(ValueError, match="before it has written the blocks that it promised"):
        manager.fork(0, 2, "too early")
    assert before.block_tables[0] == [[0, 1]]


def test_a_stale_match_is_refused() -> None:
    run = CacheRun(3, 4)
    run.run(0, PROMPT[:8])
    match = run.manager.lookup(1, PROMPT)
    run.free(0)
    run.run(2, list(range(9)))
    run.free(2)
    with pytest.raises(ValueError, match="no longer holds what the lookup found"):
        run.manager.allocate(1, 12, "append", match.hits)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (
            lambda m, _: setattr(m.groups[0].pool.blocks[0], "ref_count", 2),
            "block 0 has ref_count 2, but is in 1 tables",
        ),
        (lambda _, table: table.block_ids[0].append(0), "sequence 0 has a block twice"),
        (
            lambda _, table: setattr(table, "num_computed", 99),
            "sequence 0 has computed 99 positions, but its blocks cover 12",
        ),
        (lambda _, table: setattr(table, "num_computed", 11), "computed 3 slots of block 2, but 2 are filled"),
        (lambda _, table: setattr(table, "num_hashed", 3), "sequence 0 counts block 2 as hashed"),
        (
            lambda m, _: setattr(m.groups[0], "tokens_logical", 9),
            "the counter of computed tokens is 9, a recount gives 10",
        ),
        (lambda m, _: m.promised.update({5: 0}), "block 5 is promised by sequence 0, which does not hold it"),
    ],
)
def test_inconsistencies_are_found_and_named(
    damage: Callable[[KVCacheManager, BlockTables], object], sentence: str
) -> None:
    """10 tokens in blocks 0, 1 (cached) and 2 (partial)."""
    run = CacheRun(8, 4)
    run.run(0, PROMPT[:10])
    damage(run.manager, run.manager._tables[0])
    with pytest.raises(IntegrityError, match=sentence):
        run.manager.check_integrity()
