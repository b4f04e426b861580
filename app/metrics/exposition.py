"""Prometheus collector of the counts, read at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from app.metrics import names
from app.metrics.fold import Fold
from app.metrics.observer import Metrics
from app.metrics.tally import Tally
from engine.trace.records import Header, Memory

CONFIG_LABELS = {  # vLLM's label -> setting in a header
    "block_size": "block_size",
    "cache_dtype": "kv_cache_dtype",
    "enable_prefix_caching": "enable_prefix_caching",
    "num_gpu_blocks": "num_blocks",
    "sliding_window": "attention_window",
    "strategy": "strategy",
    "swap_space_blocks": "swap_space",
}


def registry_of(metrics: Metrics, *more: Collector) -> CollectorRegistry:
    """Return a registry of the models' metrics, further collectors, and the process's resources (`process_…`)."""
    from prometheus_client import ProcessCollector

    registry = CollectorRegistry()
    registry.register(ModelCollector(metrics))
    for collector in more:
        registry.register(collector)
    ProcessCollector(registry=registry)
    return registry


class ModelCollector(Collector):
    """Metrics of every model that has had a run."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Yield counters and histograms of the tallies, and gauges of the current runs."""
        tallies, current = self._metrics.tallies(), self._metrics.current()
        families = {metric.name: _family(metric) for metric in names.METRICS}
        for model, tally in tallies.items():
            folds = [fold for header, fold in current if header.model.name == model]
            with tally.lock:
                _add_counts(families, model, tally)
                _add_gauges(families, model, folds)
        yield from families.values()
        yield _cache_config([header for header, _ in current])


def _family(metric: names.Metric) -> Metric:
    kinds: dict[str, Callable[..., Metric]] = {
        "gauge": GaugeMetricFamily, "counter": CounterMetricFamily, "histogram": HistogramMetricFamily
    }  # fmt: skip
    return kinds[metric.kind](metric.name, metric.help, labels=[*names.LABELS, *metric.labels])


def _add_counts(families: dict[str, Metric], model: str, tally: Tally) -> None:
    for name, values in tally.counters.items():
        counter = families[name]
        assert isinstance(counter, CounterMetricFamily)
        for labels, value in values.items():
            counter.add_metric([model, names.ENGINE, *labels], value)
    for name, histogram in tally.histograms.items():
        family = families[name]
        assert isinstance(family, HistogramMetricFamily)
        family.add_metric([model, names.ENGINE], histogram.cumulative(), histogram.sum)


def _add_gauges(families: dict[str, Metric], model: str, folds: list[Fold]) -> None:
    waiting = sum(fold.num_waiting for fold in folds)
    memories = [fold.memory for fold in folds if fold.memory is not None]
    slots = sum(memory.num_blocks * memory.block_size for memory in memories)
    values: dict[tuple[names.Metric, tuple[str, ...]], float] = {
        (names.RUNNING, ()): sum(fold.num_running for fold in folds),
        (names.WAITING, ()): waiting,
        (names.WAITING_BY_REASON, ("capacity",)): waiting,
        (names.WAITING_BY_REASON, ("deferred",)): 0,
        **{(names.SLEEP_STATE, (state,)): state == "awake" for state in names.AWAKE},
        (names.KV_USAGE, ()): _share(memories, lambda memory: memory.blocks_held),
        (names.KV_USAGE_WITH_CACHED, ()): _share(memories, lambda memory: memory.blocks_held + memory.blocks_cached),
        (names.KV_TOKEN_USAGE, ()): sum(memory.tokens_held for memory in memories) / slots if slots else 0.0,
    }
    for (metric, labels), value in values.items():
        gauge = families[metric.name]
        assert isinstance(gauge, GaugeMetricFamily)
        gauge.add_metric([model, names.ENGINE, *labels], value)


def _share(memories: list[Memory], blocks: Callable[[Memory], int]) -> float:
    """Return the share of such blocks in all pools; 0 without a pool."""
    num_blocks = sum(memory.num_blocks for memory in memories)
    return sum(map(blocks, memories)) / num_blocks if num_blocks else 0.0


def _cache_config(headers: list[Header]) -> GaugeMetricFamily:
    """Return a gauge that is 1 for each combination of cache settings in current runs. vLLM has one such sample."""
    family = GaugeMetricFamily(
        names.CACHE_CONFIG, names.CACHE_CONFIG_HELP, labels=[*names.LABELS, *CONFIG_LABELS]
    )  # fmt: skip
    settings = {
        (header.model.name, *(str(header.engine.get(setting)) for setting in CONFIG_LABELS.values()))
        for header in headers
    }
    for model, *values in sorted(settings):
        family.add_metric([model, names.ENGINE, *values], 1)
    return family
