"""Moves of blocks between the device's and the CPU's tensors, by the trace's ids."""

import torch

from engine.cache.block_moves import BlockMoves
from engine.cache.block_tiers import BlockTiers
from engine.cache.kv_store import KVStore, LayerShape


def test_blocks_of_a_later_group_are_found_by_their_ids() -> None:
    """Layer 1 belongs to the second group with blocks 10, 11 and 12 and CPU blocks 4 and 5. Block 11 is swapped out to
    5, CPU block 5 is swapped in as 12, and 12 is copied to 10. Layer 0 belongs to the first group and is unchanged.
    """
    store = KVStore([LayerShape(1, 2, 2)] * 2, [10, 3], 4, torch.float32, torch.device("cpu"))
    for pool in store.pools([0, 1]):
        pool.copy_(torch.arange(float(pool.shape[0]))[:, None, None, None].expand_as(pool))
    tiers = BlockTiers(store, [1], first_block=10, num_cpu_blocks=2, first_cpu_block=4)
    tiers.move(BlockMoves(swap_out=[(11, 5)], swap_in=[(5, 12)], copy=[(12, 10)]))
    for pool in store.pools([1]):
        assert pool[:, 0, 0, 0].tolist() == [1, 1, 1], "block 11 is at index 1"
    for pool in store.pools([0]):
        assert pool[:, 0, 0, 0].tolist() == list(range(10))


def test_all_sources_of_a_kind_are_read_before_any_is_overwritten() -> None:
    store = KVStore([LayerShape(1, 2, 2)], 3, 1, torch.float32, torch.device("cpu"))
    for pool in store.pools([0]):
        pool.copy_(torch.arange(3.0)[:, None, None, None].expand_as(pool))
    BlockTiers(store, [0]).move(BlockMoves([], [], copy=[(0, 1), (1, 2)]))
    assert [pool[:, 0, 0, 0].tolist() for pool in store.pools([0])] == [[0, 0, 1], [0, 0, 1]]
