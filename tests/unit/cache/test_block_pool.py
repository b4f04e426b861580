"""Blocks, the free queue and the hash index, with exact ids."""

from collections.abc import Callable

import pytest

from engine.cache.block_pool import BlockPool, FreeQueue
from engine.cache.guards import IntegrityError


def test_free_queue_starts_in_ascending_order_from_0() -> None:
    queue = FreeQueue(range(3))
    assert list(queue) == [0, 1, 2] and len(queue) == 3 and 0 in queue and 3 not in queue


def test_free_queue_takes_from_the_head_and_grows_at_both_ends() -> None:
    queue = FreeQueue(range(4))
    assert [queue.pop_head(), queue.pop_head()] == [0, 1]
    queue.push(1, "back")
    queue.push(0, "front")
    assert list(queue) == [0, 2, 3, 1]


def test_free_queue_gives_up_its_middle() -> None:
    queue = FreeQueue(range(4))
    queue.remove(2)
    assert list(queue) == [0, 1, 3]
    with pytest.raises(KeyError):
        queue.remove(2)


def test_a_block_is_never_twice_in_the_free_queue() -> None:
    with pytest.raises(IntegrityError, match="block 1 is in the free queue already"):
        FreeQueue(range(2)).push(1, "back")


def test_an_empty_pool_has_nothing_to_allocate() -> None:
    pool = BlockPool(1)
    pool.allocate()
    with pytest.raises(KeyError):
        pool.allocate()


def test_a_block_without_hash_returns_to_the_front_and_a_hashed_one_to_the_back() -> None:
    """Blocks 0 and 1 of 4 are taken, 1 gets a hash: after both are freed 0 is next, 1 is last."""
    pool = BlockPool(4)
    first, second = pool.allocate()[0], pool.allocate()[0]
    pool.cache(second, b"h")
    assert (pool.release(second), pool.release(first)) == ("back", "front")
    assert list(pool.free_queue) == [0, 2, 3, 1]
    assert (pool.num_held, pool.num_free, pool.num_cached_free) == (0, 4, 1)


def test_a_block_with_owners_left_stays_out_of_the_free_queue() -> None:
    pool = BlockPool(2)
    block, _ = pool.allocate()
    assert pool.share(block) is False and block.ref_count == 2
    assert pool.release(block) is None and list(pool.free_queue) == [1]


def test_a_free_cached_block_is_revived_in_place_with_its_content() -> None:
    pool = BlockPool(3)
    block, _ = pool.allocate()
    pool.fill(block, 4)
    pool.cache(block, b"h")
    pool.release(block)
    assert list(pool.free_queue) == [1, 2, 0] and pool.num_filled_held == 0
    assert pool.find(b"h") is block and pool.share(block) is True
    assert list(pool.free_queue) == [1, 2] and (block.num_filled, pool.num_filled_held) == (4, 4)


def test_a_reallocated_block_loses_its_hash_and_content() -> None:
    pool = BlockPool(1)
    block, _ = pool.allocate()
    pool.fill(block, 4)
    pool.cache(block, b"h")
    pool.release(block)
    again, evicted = pool.allocate()
    assert evicted is not None and (again, evicted.block_hash) == (block, b"h")
    assert (block.block_hash, block.num_filled, pool.find(b"h"), pool.num_cached_free) == (None, 0, None, 0)


def test_duplicates_are_kept_and_the_first_cached_answers_until_it_is_evicted() -> None:
    """Blocks 0 and 1 carry one hash. 0 answers, free or not; once 0 is reallocated 1 takes over."""
    pool = BlockPool(2)
    first, second = pool.allocate()[0], pool.allocate()[0]
    pool.cache(first, b"h")
    pool.cache(second, b"h")
    assert pool.find(b"h") is first
    pool.release(first)
    assert pool.find(b"h") is first
    again, evicted = pool.allocate()
    assert evicted is not None and (again, evicted.block_hash) == (first, b"h")
    assert pool.find(b"h") is second
    pool.check_integrity()


def test_what_was_never_written_loses_its_hash() -> None:
    pool = BlockPool(1)
    block, _ = pool.allocate()
    pool.fill(block, 2)
    pool.cache(block, b"h")
    assert pool.uncache(block).block_hash == b"h"
    assert (block.num_filled, pool.num_filled_held, pool.find(b"h")) == (0, 0, None)
    assert pool.release(block) == "front"


def _free_but_held(pool: BlockPool) -> None:
    pool.blocks[2].ref_count = 1


def _lost(pool: BlockPool) -> None:
    pool.free_queue.remove(2)


def _unknown_hash(pool: BlockPool) -> None:
    pool.blocks[0].block_hash = b"other"


def _hash_gone(pool: BlockPool) -> None:
    pool.blocks[1].block_hash = None


def _more_filled(pool: BlockPool) -> None:
    pool.blocks[0].num_filled = 3


def _stale_content(pool: BlockPool) -> None:
    pool.blocks[2].num_filled = 1


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (_free_but_held, r"free queue \[1, 2, 3\] is not the blocks that no sequence holds \[1, 3\]"),
        (_lost, r"free queue \[1, 3\] is not the blocks that no sequence holds \[1, 2, 3\]"),
        (_unknown_hash, "block 0 carries a hash that the index does not know"),
        (_hash_gone, "the index has block 1 under a hash it does not carry"),
        (_more_filled, "the counter of filled slots says 2, a recount 3"),
        (_stale_content, "block 2 is free without a hash, yet 1 slots are filled"),
    ],
)
def test_damage_is_found_and_named(damage: Callable[[BlockPool], None], sentence: str) -> None:
    """Block 0 is held with 2 slots filled and hash a, block 1 is free with hash b, 2 and 3 were never used."""
    pool = BlockPool(4)
    held, cached = pool.allocate()[0], pool.allocate()[0]
    pool.fill(held, 2)
    pool.cache(held, b"a")
    pool.cache(cached, b"b")
    pool.release(cached)
    pool.check_integrity()
    damage(pool)
    with pytest.raises(IntegrityError, match=sentence):
        pool.check_integrity()
