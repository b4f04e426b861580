"""The view of a pool that is derived from the log equals the pool's state after every record."""

import pytest

from engine.cache.prefix_cache import HashChain
from engine.cluster.pool_view import PoolView
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.trace.operations import Lost, Receive
from tests.unit.connector.pair import Pair
from tests.unit.engine.runs import CONFIGS, POLICIES, PROMPTS, log_of, run, tiny_llama

UNKNOWN_SEQUENCE = 1 << 40  # id of lookups without a request


class Watch:
    """Comparison of an engine's cache with the view derived from its records."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.view = PoolView(engine.block_groups, engine.config.block_size)
        self.num_records = self.num_hits = self.num_compared = 0

    def look(self) -> None:
        log = log_of(self.engine)
        for index in range(self.num_records, len(log)):
            self.view.note(log.record(index).ops)
        self.num_records = len(log)
        assert self.view.num_held == self.engine.snapshot().memory.blocks_held
        sequences = log.state_now().sequences.values()
        for token_ids in [*PROMPTS, *([*sequence.token_ids, 1] for sequence in sequences)]:
            for salt in (None, "other"):
                theirs = self.engine._cache.lookup(UNKNOWN_SEQUENCE, token_ids, salt)
                self.engine._cache.forget(UNKNOWN_SEQUENCE)
                ours = self.view.match(token_ids, HashChain(self.engine.config.block_size, salt))
                assert ours == theirs.hits
                self.num_hits += bool(ours)
                self.num_compared += 1


@pytest.mark.parametrize("name", [*CONFIGS, *POLICIES])
def test_the_pool_view_predicts_the_engines_hits(name: str) -> None:
    watches: list[Watch] = []

    def look(engine: Engine) -> None:
        if not watches:
            watches.append(Watch(engine))
        watches[0].look()

    with run(name, on_record=look) as engine:
        watch = watches[0]
        assert watch.num_compared > 200
        assert bool(watch.num_hits) == engine.config.enable_prefix_caching


@pytest.mark.parametrize("pattern", [None, 2])
def test_received_blocks_are_found(pattern: int | None) -> None:
    window = None if pattern is None else 8
    config = EngineConfig(block_size=4, num_blocks=40, attention_window=window, sliding_window_pattern=pattern)
    pair = Pair(tiny_llama(), config)
    watches = [Watch(pair.prefill), Watch(pair.decode)]
    for prompt in (PROMPTS[0], PROMPTS[3], PROMPTS[5]):
        pair.pass_on(prompt, SamplingParams(max_tokens=6, ignore_eos=True))
        while pair.turn(pair.prefill) or pair.turn(pair.decode):
            for watch in watches:
                watch.look()
    assert any(isinstance(op, Receive) for op in pair.ops["decode"])
    assert all(watch.num_hits for watch in watches)


def test_a_lost_instance_holds_no_blocks() -> None:
    watches: list[Watch] = []
    with run("roomy", on_record=lambda engine: watches.append(Watch(engine)) if not watches else None):
        watch = watches[0]
        watch.look()
        chain = HashChain(4, None)
        assert watch.view.num_hit_tokens(PROMPTS[0], chain) == 16
        watch.view.note([Lost()])
        assert watch.view.num_hit_tokens(PROMPTS[0], chain) == watch.view.num_held == 0
