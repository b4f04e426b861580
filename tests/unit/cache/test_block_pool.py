"""Blocks, the free queue and the hash index, with exact ids."""

from collections.abc import Callable

import pytest

from engine.cache.block_pool import BlockPool, FreeQueue
from engine.cache.guards import IntegrityError


def test_a_block_is_removed_from_the_middle_of_the_free_queue() -> None:
    queue = FreeQueue(range(4))
    queue.remove(2)
    assert list(queue) == [0, 1, 3]
    with pytest.raises(KeyError):
        queue.remove(2)


def test_a_block_is_never_twice_in_the_free_queue() -> None:
    with pytest.raises(IntegrityError, match="block 1 is in the free queue already"):
        FreeQueue(range(2)).push(1, "back")


def test_unwritten_blocks_lose_their_hash() -> None:
    pool = BlockPool(1)
    block, _ = pool.allocate()
    pool.fill(block, 2)
    pool.cache_full_block(block, b"h")
    assert pool.uncache(block).block_hash == b"h"
    assert (block.num_filled, pool.num_filled_held, pool.find(b"h")) == (0, 0, None)
    assert pool.free(block) == "front"


def _free_held_block(pool: BlockPool) -> None:
    pool.blocks[2].ref_count = 1


def _lost(pool: BlockPool) -> None:
    pool.free_queue.remove(2)


def _unknown_hash(pool: BlockPool) -> None:
    pool.blocks[0].block_hash = b"other"


def _remove_hash(pool: BlockPool) -> None:
    pool.blocks[1].block_hash = None


def _overfill_block(pool: BlockPool) -> None:
    pool.blocks[0].num_filled = 3


def _keep_stale_content(pool: BlockPool) -> None:
    pool.blocks[2].num_filled = 1


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (_free_held_block, r"the free queue has blocks \[1, 2, 3\], but no sequence holds blocks \[1, 3\]"),
        (_lost, r"the free queue has blocks \[1, 3\], but no sequence holds blocks \[1, 2, 3\]"),
        (_unknown_hash, "block 0 has a hash that is not in the index"),
        (_remove_hash, "the index has block 1 under a hash that the block does not have"),
        (_overfill_block, "the counter of filled slots is 2, a recount gives 3"),
        (_keep_stale_content, "block 2 is free without a hash, yet 1 slots are filled"),
    ],
)
def test_inconsistencies_are_found_and_named(damage: Callable[[BlockPool], None], sentence: str) -> None:
    """Block 0 is held with 2 filled slots and hash a. Block 1 is free with hash b. Blocks 2 and 3 are unused."""
    pool = BlockPool(4)
    held, cached = pool.allocate()[0], pool.allocate()[0]
    pool.fill(held, 2)
    pool.cache_full_block(held, b"a")
    pool.cache_full_block(cached, b"b")
    pool.free(cached)
    pool.check_integrity()
    damage(pool)
    with pytest.raises(IntegrityError, match=sentence):
        pool.check_integrity()
