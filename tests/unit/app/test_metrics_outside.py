"""Metrics of an external store equal the log's operations."""

from pathlib import Path
from typing import TypeVar

import pytest

from app.metrics import names
from app.metrics.names import Metric
from app.metrics.tally import Tally
from engine.config import EngineConfig, SamplingParams
from engine.connector.offloading import OffloadingConnector
from engine.connector.tiers.settings import DiskSetting
from engine.connector.tiers.tiers import Tiers
from engine.engine import Engine
from engine.trace.check import check
from engine.trace.log import TraceReader
from engine.trace.operations import Load, LookupExternal, Op, Store
from engine.trace.records import Header, StepRecord
from tests.unit.app.metrics_runs import folded
from tests.unit.engine.runs import tiny_llama

T = TypeVar("T", bound=Op)
SHARED = list(range(5, 26))  # 21 tokens: five blocks of four and one token
PROMPTS = [[*SHARED, 30, 31], [50, 51], [*SHARED, 40, 41, 42, 43, 44]]
SETTINGS = {
    "plain": EngineConfig(block_size=4, num_blocks=40),
    "sinks": EngineConfig(block_size=4, num_blocks=40, attention_window=8, attention_sinks=4),
    "hybrid": EngineConfig(block_size=4, num_blocks=40, attention_window=8, sliding_window_pattern=2),
}


def recorded(config: EngineConfig, tiers: Tiers, path: Path) -> tuple[Header, list[StepRecord]]:
    """Run the prompts one after the other and return their log."""
    connector = OffloadingConnector(tiers, tiny_llama(), config)
    with Engine(tiny_llama(), config, log_path=path, connector=connector) as engine:
        for prompt in PROMPTS:
            engine.add_request(prompt, SamplingParams(max_tokens=3, ignore_eos=True))
            while engine.has_unfinished():
                engine.step()
    assert [str(finding) for finding in check(path)] == []
    with TraceReader(path) as log:
        return log.header, [log.record(index) for index in range(len(log))]


def counts(tally: Tally, metric: Metric) -> dict[tuple[str, ...], float]:
    return {labels: value for labels, value in tally.counters[metric.name].items() if value}


def of(kind: type[T], records: list[StepRecord]) -> list[T]:
    return [op for record in records for op in record.ops if isinstance(op, kind)]


@pytest.mark.parametrize("name", SETTINGS)
def test_external_queries_count_pool_misses_and_hits_count_loads(name: str, tmp_path: Path) -> None:
    """The store is empty at first. The second engine finds the five shared blocks. A prompt of two tokens causes no
    lookup.
    """
    config, disk = SETTINGS[name], DiskSetting(tmp_path / "blocks", 1 << 22)
    before = Tiers(disk=disk)
    tally, _, _ = folded(*recorded(config, before, tmp_path / "a.kvtrace"))
    before.close()
    assert counts(tally, names.EXTERNAL_QUERIES) == {(): 23 + (26 - 20)}
    assert counts(tally, names.EXTERNAL_HITS) == {}
    assert set(counts(tally, names.EXTERNAL_LOOKUPS)) == {("miss",)}

    after = Tiers(disk=disk)
    header, records = recorded(config, after, tmp_path / "b.kvtrace")
    tally, _, requests = folded(header, records)
    loads = of(Load, records)
    assert counts(tally, names.EXTERNAL_QUERIES) == {(): 23 + (26 - 20)}
    assert counts(tally, names.EXTERNAL_HITS)[()] >= 20
    external = [request.num_external_tokens for request in requests]
    assert external[0] == 20 and counts(tally, names.EXTERNAL_HITS) == {(): sum(external)}
    assert counts(tally, names.BY_SOURCE)["external_kv_transfer",] == sum(external)
    assert requests[0].num_cached_tokens == 20
    cached = counts(tally, names.CACHED_BY_SOURCE)
    assert sum(cached.values()) == counts(tally, names.HITS).get((), 0) + sum(external)
    media = [medium for op in of(LookupExternal, records) if op.verdict == "load" for medium in op.media]
    assert cached["disk",] == 4 * len(media) and set(media) == {"disk"}
    assert counts(tally, names.EXTERNAL_BYTES)["load", "disk"] == sum(op.num_bytes for op in loads) > 0
    assert not of(Store, records)
    after.close()


def test_stored_bytes_count_per_tier(tmp_path: Path) -> None:
    tiers = Tiers(cpu_bytes=1 << 24)
    header, records = recorded(SETTINGS["plain"], tiers, tmp_path / "a.kvtrace")
    tally, _, _ = folded(header, records)
    assert counts(tally, names.EXTERNAL_BYTES) == {("store", "cpu"): sum(op.num_bytes for op in of(Store, records))}
    tiers.close()
