"""In 10,000 random operations on one pool no block is lost, and every held block has a counted owner."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from engine.cache.block_groups import one_group
from engine.cache.kv_cache_manager import KVCacheManager

NUM_BLOCKS, BLOCK_SIZE, SWAP_SPACE = 24, 4, 8
PREFIXES = [[], [1] * 8, [1, 1, 1, 1, 2, 2, 2, 2], [3] * 6]


class Crowd:
    """Sequences that come, grow, fork, are swapped or preempted, and go, at random."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.manager = KVCacheManager(one_group(NUM_BLOCKS), BLOCK_SIZE, True, lambda _: None, SWAP_SPACE)
        self.tokens: dict[int, list[int]] = {}  # of sequences that hold blocks or are swapped out
        self.next_id = 0
        self.done: Counter[str] = Counter()

    def operate(self) -> None:
        """Run an operation that the present state allows, and recount."""
        operations = [self.arrive, self.arrive, self.grow, self.grow, self.grow, self.fork, self.finish, self.preempt]
        operation = self.random.choice([*operations, self.come_back, self.drop])
        if operation():
            self.done[operation.__name__] += 1
        self.manager.take_moves()
        self.recount()

    def recount(self) -> None:
        snapshot, memory = self.manager.snapshot(), self.manager.memory()
        holders = Counter(block_id for tables in snapshot.block_tables.values() for block_id in tables[0])
        assert snapshot.ref_counts == [holders[i] for i in range(NUM_BLOCKS)]
        assert len(snapshot.free_queues[0]) + len(holders) == NUM_BLOCKS
        assert set(snapshot.free_queues[0]).isdisjoint(holders)
        cpu = [i for table in snapshot.cpu_block_tables.values() for i in table]
        assert len(set(cpu)) == len(cpu) == memory.swap_blocks_held <= SWAP_SPACE
        assert memory.blocks_held == len(holders)

    def running(self) -> list[int]:
        return list(self.manager.snapshot().block_tables)

    def swapped(self) -> list[int]:
        return list(self.manager.groups[0].swap_space.tables)

    def compute(self, seq_id: int, start: int) -> None:
        count = len(self.tokens[seq_id])
        self.manager.cache_blocks(seq_id, self.tokens[seq_id], count)
        if count > start:
            self.manager.write(seq_id, start, count - start)

    def arrive(self) -> bool:
        tokens = self.random.choice(PREFIXES) + self.random.choices(range(3), k=self.random.randint(1, 9))
        match = self.manager.lookup(self.next_id, tokens)
        if not self.manager.allocate(self.next_id, len(tokens), "admission", match.hits):
            self.manager.forget(self.next_id)
            return False
        self.tokens[self.next_id] = tokens
        self.compute(self.next_id, match.num_tokens)
        self.next_id += 1
        return True

    def grow(self) -> bool:
        if not (running := self.running()):
            return False
        seq_id = self.random.choice(running)
        if not self.manager.allocate(seq_id, len(self.tokens[seq_id]) + 1, "append"):
            return False
        self.tokens[seq_id].append(self.random.randrange(3))
        self.compute(seq_id, len(self.tokens[seq_id]) - 1)
        return True

    def fork(self) -> bool:
        if not (running := self.running()):
            return False
        parent = self.random.choice(running)
        self.manager.fork(parent, self.next_id, "r")
        self.tokens[self.next_id] = list(self.tokens[parent])
        self.next_id += 1
        return True

    def finish(self) -> bool:
        if not (running := self.running()):
            return False
        self.end(self.random.choice(running))
        return True

    def preempt(self) -> bool:
        if not (running := self.running()):
            return False
        seq_id = self.random.choice(running)
        if self.manager.swap_out(seq_id) is None:
            self.end(seq_id)
        return True

    def come_back(self) -> bool:
        if not (swapped := self.swapped()):
            return False
        seq_id = self.random.choice(swapped)
        computed = self.manager.num_swapped_tokens(seq_id)
        if not self.manager.swap_in(seq_id, computed):
            return False
        self.compute(seq_id, computed)
        return True

    def drop(self) -> bool:
        if not (swapped := self.swapped()):
            return False
        self.end(self.random.choice(swapped))
        return True

    def end(self, seq_id: int) -> None:
        self.manager.free(seq_id, "finish")
        self.manager.forget(seq_id)
        del self.tokens[seq_id]


@pytest.mark.parametrize("seed", [0, 1])
def test_ten_thousand_random_operations_lose_nothing(seed: int) -> None:
    crowd = Crowd(seed)
    for number in range(10_000):
        crowd.operate()
        if number % 100 == 0:
            crowd.manager.check_integrity()
    assert min(crowd.done.values()) > 100 and len(crowd.done) == 7, crowd.done
    for seq_id in list(crowd.tokens):
        crowd.end(seq_id)
    crowd.recount()
    memory = crowd.manager.memory()
    assert (memory.blocks_held, memory.swap_blocks_held, memory.tokens_logical) == (0, 0, 0)
