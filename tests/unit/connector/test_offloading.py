"""Blocks that are loaded from tiers: equal tokens, consistent accounting, and a complete log."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engine.config import EngineConfig
from engine.connector.base import KVConnectorMetadata
from engine.connector.offloading import OffloadingConnector, may_offload
from engine.connector.tiers.settings import DiskSetting
from engine.connector.tiers.tiers import Tiers
from engine.engine import Engine
from engine.lab.rerun import Rerun, RerunError
from engine.model.loaded import LoadedModel
from engine.model.loader import from_module
from engine.trace.operations import Admit, Allocate, Cache, Load, LookupExternal, Op, Store
from engine.trace.snapshot import snapshot_of
from tests.quick_tiers import QuickTiers
from tests.tiny_models import FAMILIES, tiny_model, tiny_tokenizer
from tests.unit.connector.pair import GREEDY, checked, of
from tests.unit.connector.pair import PROMPTS as PAIR_PROMPTS
from tests.unit.connector.pair import SETTINGS as PAIR_SETTINGS
from tests.unit.engine.runs import log_of, tiny_llama

SETTINGS = {name: config for name, config in PAIR_SETTINGS.items() if name != "no prefix cache"}
PROMPTS = PAIR_PROMPTS[:3]


def run(engine: Engine, prompts: list[list[int]] = PROMPTS) -> tuple[list[list[int]], list[Op]]:
    """Return greedy outputs and all operations. The cache is checked after each step."""
    requests = [engine.add_request(prompt, GREEDY) for prompt in prompts]
    ops = list[Op]()
    while engine.has_unfinished():
        ops += engine.step().ops
        checked(engine)
    return [request.output_token_ids for request in requests], ops


def with_tiers(model: LoadedModel, config: EngineConfig, tiers: Tiers) -> Engine:
    return Engine(model, config, connector=OffloadingConnector(tiers, model, config))


@pytest.fixture
def tiers() -> Tiers:
    return Tiers(cpu_bytes=1 << 24, speeds=QuickTiers())


@pytest.mark.parametrize("name", SETTINGS)
def test_an_engine_loads_blocks_that_another_stored(name: str, tiers: Tiers) -> None:
    config = SETTINGS[name]
    expected, _ = run(Engine(tiny_llama(), config))
    first, stored = run(with_tiers(tiny_llama(), config, tiers))
    again, loaded = run(with_tiers(tiny_llama(), config, tiers))
    assert first == again == expected
    assert of(Store, stored) and not of(Store, loaded), "the second engine stores no new block"
    assert {op.medium for op in of(Load, loaded)} == {"cpu"}
    admitted = [op for op in of(Admit, loaded) if op.num_external_tokens]
    size = config.block_size
    assert admitted[0].num_external_tokens == (len(PROMPTS[0]) - 1) // size * size
    verdicts = of(LookupExternal, loaded)
    assert [op.num_found_tokens for op in verdicts if op.verdict == "load"] == [
        op.num_external_tokens for op in admitted
    ]
    reasons = [op.block_id for op in of(Allocate, loaded) if op.reason == "load"]
    assert sorted(reasons) == sorted(op.block_id for op in of(Load, loaded))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_model_family_stores_and_loads_blocks(family: str, tiers: Tiers) -> None:
    model = from_module(tiny_model(family), tiny_tokenizer(), family)
    config = EngineConfig(block_size=2, num_blocks=64)
    expected, _ = run(Engine(model, config))
    assert run(with_tiers(model, config, tiers))[0] == expected
    again, loaded = run(with_tiers(model, config, tiers))
    assert again == expected
    assert of(Load, loaded)


def test_a_run_loads_blocks_that_an_earlier_run_left_on_disk(tmp_path: Path) -> None:
    config = SETTINGS["plain"]
    before = Tiers(disk=DiskSetting(tmp_path, 1 << 22), speeds=QuickTiers())
    expected, _ = run(with_tiers(tiny_llama(), config, before))
    assert before.close() == 0
    after = Tiers(disk=DiskSetting(tmp_path, 1 << 22), speeds=QuickTiers())
    again, loaded = run(with_tiers(tiny_llama(), config, after))
    assert again == expected
    assert {op.medium for op in of(Load, loaded)} == {"disk"}
    after.close()


def test_evicted_blocks_are_loaded_again(tiers: Tiers) -> None:
    """The store holds all prompts of 7 blocks each, and the pool only 11 blocks."""
    config = SETTINGS["tight"]
    prompts = [[10 * i + j for j in range(1, 9)] * 3 for i in range(1, 5)]
    with with_tiers(tiny_llama(), config, tiers) as engine, Engine(tiny_llama(), config) as plain:
        for prompt in prompts * 2:
            assert run(engine, [prompt])[0] == run(plain, [prompt])[0]
        _, ops = run(engine, [prompts[0]])
    assert len(of(Load, ops)) == 5  # at most 23 of 24 tokens are loaded: 5 blocks of 4


CHANGES: dict[str, Callable[[], tuple[LoadedModel, EngineConfig]]] = {
    "weights": lambda: (from_module(tiny_model("llama", seed=1), tiny_tokenizer(), "tiny-llama"), SETTINGS["plain"]),
    "block size": lambda: (tiny_llama(), EngineConfig(block_size=2, num_blocks=40)),
    "dtype": lambda: (tiny_llama(), EngineConfig(block_size=4, num_blocks=40, kv_cache_dtype="float16")),
    "window": lambda: (tiny_llama(), EngineConfig(block_size=4, num_blocks=40, attention_window=64)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_models_blocks_are_never_loaded(change: str, tiers: Tiers) -> None:
    run(with_tiers(tiny_llama(), SETTINGS["plain"], tiers))
    model, config = CHANGES[change]()
    _, ops = run(with_tiers(model, config, tiers))
    assert not of(Load, ops)


def test_blocks_are_loaded_only_under_the_same_salt(tiers: Tiers) -> None:
    config = SETTINGS["plain"]
    for salt, loads in (("a", False), ("b", False), ("a", True)):
        with with_tiers(tiny_llama(), config, tiers) as engine:
            engine.add_request(PROMPTS[0], GREEDY, cache_salt=salt)
            assert bool(of(Load, engine.step().ops)) == loads


def test_blocks_are_computed_if_that_is_faster(tiers: Tiers, monkeypatch: pytest.MonkeyPatch) -> None:
    config = SETTINGS["plain"]
    expected, _ = run(with_tiers(tiny_llama(), config, tiers))
    with with_tiers(tiny_llama(), config, tiers) as engine:
        for _ in range(100):
            engine._connector.note_prefill(1_000_000, 1e-6)
        outputs, ops = run(engine)
    assert outputs == expected and not of(Load, ops)
    verdict = of(LookupExternal, ops)[0]
    assert verdict.verdict == "compute" and verdict.num_found_tokens == 20
    assert verdict.load_seconds is not None and verdict.compute_seconds is not None
    assert verdict.load_seconds > verdict.compute_seconds


def test_a_block_deleted_before_its_read_is_a_miss(tiers: Tiers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The read of the third of five blocks fails, so two are loaded and the others computed."""
    config = SETTINGS["plain"]
    expected, _ = run(with_tiers(tiny_llama(), config, tiers))
    reads, load = list[bytes](), tiers.load

    def fail_third(key: bytes) -> object:
        reads.append(key)
        return None if len(reads) == 3 else load(key)

    monkeypatch.setattr(tiers, "load", fail_third)
    outputs, ops = run(with_tiers(tiny_llama(), config, tiers))
    assert outputs == expected
    admitted = [op.num_external_tokens for op in of(Admit, ops)]
    assert admitted[0] == 8


def test_a_rerun_ends_at_the_first_loaded_block(tiers: Tiers) -> None:
    config = SETTINGS["plain"]
    with with_tiers(tiny_llama(), config, tiers) as stored, with_tiers(tiny_llama(), config, tiers) as loaded:
        assert of(Store, run(stored)[1])
        with with_tiers(tiny_llama(), config, tiers) as again:
            Rerun(again, log_of(stored), len(log_of(stored)), None, follow=False).finish()
        assert of(Load, run(loaded)[1])
        with (
            with_tiers(tiny_llama(), config, tiers) as again,
            pytest.raises(RerunError, match="in record 3 blocks came"),
        ):
            Rerun(again, log_of(loaded), len(log_of(loaded)), None, follow=False).finish()


def test_a_private_log_does_not_reveal_block_hashes(tiers: Tiers) -> None:
    config = replace(SETTINGS["plain"], private=True)
    with with_tiers(tiny_llama(), config, tiers) as engine:
        for _ in range(2):
            for prompt in PROMPTS:
                engine.add_request(prompt, GREEDY)
            while engine.has_unfinished():
                engine.step()
        log = log_of(engine)
        names = {
            op.block_hash for i in range(len(log)) for op in log.record(i).ops if isinstance(op, Cache | Store | Load)
        }
    with Engine(tiny_llama(), SETTINGS["plain"]) as plain:
        shown = {op.block_hash for op in run(plain)[1] if isinstance(op, Cache)}
    assert names and not names & shown


class FailingConnector(OffloadingConnector):
    """Connector with one out-of-memory error."""

    fails = ""

    def start_load_kv(self, meta: KVConnectorMetadata) -> None:
        if self.fails == "load" and meta.loads:
            self.fails = ""
            raise RuntimeError("out of memory")
        super().start_load_kv(meta)

    def _save(self, meta: KVConnectorMetadata) -> None:
        if self.fails == "save" and meta.saves:
            self.fails = ""
            raise RuntimeError("out of memory")
        super()._save(meta)


def test_blocks_of_a_failed_load_are_never_hit(tiers: Tiers) -> None:
    config = SETTINGS["plain"]
    expected, _ = run(with_tiers(tiny_llama(), config, tiers), PROMPTS[:1])
    connector = FailingConnector(tiers, tiny_llama(), config)
    with Engine(tiny_llama(), config, connector=connector) as engine:
        connector.fails = "load"
        lost = engine.add_request(PROMPTS[0], GREEDY)
        with pytest.raises(RuntimeError, match="out of memory"):
            engine.step()
        engine.check_integrity()
        assert lost.finish_reason == "abort" and engine.snapshot() == snapshot_of(log_of(engine).state_now())
        assert not any(engine.snapshot().block_hashes)
        outputs, ops = run(engine, PROMPTS[:1])
        assert outputs == expected and of(Load, ops)


def test_a_failed_copy_loses_no_request(tiers: Tiers) -> None:
    config = SETTINGS["plain"]
    connector = FailingConnector(tiers, tiny_llama(), config)
    connector.fails = "save"
    with Engine(tiny_llama(), config, connector=connector) as engine:
        outputs, ops = run(engine)
    assert outputs == run(Engine(tiny_llama(), config))[0] and of(Store, ops)


@pytest.mark.parametrize("settings", [{"private": True}, {"forget_policy": "h2o"}, {"strategy": "contiguous"}])
def test_private_forgetting_and_contiguous_runs_do_not_offload(settings: dict[str, Any]) -> None:
    assert may_offload(SETTINGS["plain"]) and not may_offload(replace(SETTINGS["plain"], **settings))
