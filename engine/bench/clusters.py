"""Clusters of a benchmark, started once per layout and reused for every run."""

from __future__ import annotations

from collections.abc import Callable

from engine.cluster.build import local_cluster
from engine.cluster.cluster import Cluster
from engine.cluster.messages import ModelSource
from engine.cluster.process_cluster import process_cluster
from engine.cluster.worker_process import Workers
from engine.config import EngineConfig
from engine.model.loaded import LoadedModel


class Clusters:
    """Clusters by model and settings."""

    def __init__(self) -> None:
        self._started: list[tuple[tuple[str, str, EngineConfig], Cluster]] = []
        self._closing: list[Callable[[], object]] = []

    def cluster(self, model: LoadedModel, source: str, config: EngineConfig) -> Cluster:
        """Return the cluster, started on first use. It is idle unless the previous run was cancelled.

        `source`: path of the weights, which worker processes load themselves.

        Raises:
            ConfigError: invalid settings.
        """
        key = (source, model.facts.dtype, config)
        for known, cluster in self._started:
            if known == key:
                return cluster
        if config.instances == "thread":
            cluster = local_cluster(model, config)
            self._closing.append(cluster.close)
        else:
            cluster = self._of_processes(model, source, config)
        self._started.append((key, cluster))
        return cluster

    def _of_processes(self, model: LoadedModel, source: str, config: EngineConfig) -> Cluster:
        workers = Workers(ModelSource(model=source, dtype=model.facts.dtype))
        self._closing.append(workers.close)
        cluster = process_cluster(model, config, workers)
        self._closing.append(cluster.close)
        return cluster

    def close(self) -> None:
        """End every process. Idempotent."""
        self._started.clear()
        while self._closing:
            self._closing.pop()()
