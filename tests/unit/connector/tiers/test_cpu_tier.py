"""CPU tier, compared with a simple model."""

import sys
import threading

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engine.connector.tiers.cpu_tier import CpuTier
from tests.unit.connector.tiers.blocks import key, payload

KEYS = st.integers(0, 7).map(key)
SIZES = st.integers(0, 60)
BOUND = 100


class CpuTierMachine(RuleBasedStateMachine):
    """Comparison with a list of (key, payload), the least recently used first."""

    def __init__(self) -> None:
        super().__init__()
        self.tier = CpuTier(BOUND)
        self.model: list[tuple[bytes, bytes]] = []
        self.evicted = 0

    def _take(self, block_key: bytes) -> bytes | None:
        found = [content for known, content in self.model if known == block_key]
        self.model = [pair for pair in self.model if pair[0] != block_key]
        return found[0] if found else None

    @rule(block_key=KEYS, size=SIZES)
    def store(self, block_key: bytes, size: int) -> None:
        content = payload(size, size)
        evicted = self.tier.store(block_key, content)
        self._take(block_key)
        self.model.append((block_key, content))
        expected = []
        while sum(len(content) for _, content in self.model) > BOUND:
            expected.append(self.model.pop(0)[0])
        assert evicted == expected
        self.evicted += len(evicted)

    @rule(block_key=KEYS)
    def load(self, block_key: bytes) -> None:
        content = self._take(block_key)
        if content is not None:
            self.model.append((block_key, content))
        assert self.tier.load(block_key) == content

    @rule(block_key=KEYS)
    def contains(self, block_key: bytes) -> None:
        assert (block_key in self.tier) == any(block_key == known for known, _ in self.model)

    @rule()
    def touch_the_oldest(self) -> None:
        if self.model:
            self.tier.touch(self.model[0][0])
            self.model.append(self.model.pop(0))

    @invariant()
    def counts_agree(self) -> None:
        figures = self.tier.figures()
        assert figures.blocks == len(self.model)
        assert figures.bytes == sum(len(content) for _, content in self.model) <= BOUND
        assert figures.evictions == self.evicted


TestCpuTier = CpuTierMachine.TestCase
TestCpuTier.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_block_larger_than_the_tier_evicts_nothing_and_is_counted() -> None:
    tier = CpuTier(100)
    tier.store(key(1), payload(1, 100))
    assert tier.store(key(2), payload(2, 101)) == [] and key(2) not in tier and key(1) in tier
    (drop,) = tier.stats.drops()
    assert (drop.reason, drop.key, drop.number) == ("too_large", key(2).hex(), 1)
    assert tier.figures().drops == {"too_large": 1}


def test_hits_misses_and_bytes_are_counted() -> None:
    tier = CpuTier(100)
    tier.store(key(1), payload(1, 30))
    assert tier.load(key(1)) == payload(1, 30) and tier.load(key(2)) is None
    figures = tier.figures()
    assert (figures.hits, figures.misses, figures.stores) == (1, 1, 1)
    assert (figures.loaded_bytes, figures.stored_bytes) == (30, 30)
    assert figures.load_seconds > 0 and figures.store_seconds > 0


def test_engines_on_several_threads_share_the_tier() -> None:
    """The tier has room for one block, so nearly every load and store races with another thread's eviction."""
    tier, errors = CpuTier(30), list[BaseException]()

    def engine(first: int) -> None:
        try:
            for n in range(first, first + 20000):
                tier.store(key(n % 4), payload(n % 4, 30))
                assert tier.load(key(n % 4)) in (None, payload(n % 4, 30))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=engine, args=(first,)) for first in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not errors
    figures = tier.figures()
    assert (figures.blocks, figures.bytes, figures.hits + figures.misses) == (1, 30, 60000)
