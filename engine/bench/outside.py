"""Offloading tiers of a benchmark run: an initially empty store, and the accuracy of its time estimates."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.bench.errors import BenchError
from engine.bench.tiers import Estimates, TierSizes
from engine.config import EngineConfig
from engine.connector.base import KVConnectorMetadata
from engine.connector.offloading import OffloadingConnector, may_offload
from engine.connector.tiers.settings import DiskSetting, parse_size
from engine.connector.tiers.tiers import Loaded, Tiers
from engine.model.loaded import LoadedModel
from engine.scheduling.sequence import Sequence


@contextmanager
def tier_connector(sizes: TierSizes, model: LoadedModel, config: EngineConfig) -> Iterator[TimedConnector | None]:
    """Yield a connector to an empty store, whose disk folder is deleted on exit; None if no tier is configured.

    Raises:
        BenchError: an engine with these settings cannot offload blocks.
    """
    if sizes == TierSizes():
        yield None
        return
    if not may_offload(config):
        raise BenchError("tiers require strategy paged, prefix caching and no forget_policy: they store hashed blocks")
    with TemporaryDirectory(prefix="kvtheater-bench-") as folder:
        disk = DiskSetting(Path(folder), parse_size(sizes.disk)) if sizes.disk else None
        tiers = TimedTiers(parse_size(sizes.cpu) if sizes.cpu else None, disk)
        try:
            yield TimedConnector(tiers, model, config)
        finally:
            tiers.close()


class TimedTiers(Tiers):
    """Tiers that sum the time of reads."""

    read_seconds = 0.0

    def load(self, key: bytes) -> Loaded | None:
        found = super().load(key)
        if found is not None:
            self.read_seconds += found.seconds
        return found


class TimedConnector(OffloadingConnector):
    """Connector that compares estimates with measured step times."""

    def __init__(self, tiers: TimedTiers, model: LoadedModel, config: EngineConfig) -> None:
        super().__init__(tiers, model, config)
        self.estimates = Estimates()
        self._timed_tiers = tiers
        self._read: dict[int, float] = {}  # seconds by waiting sequence
        self._step: list[tuple[float | None, float]] = []  # expected and actual seconds of the step's admissions

    def get_num_new_matched_tokens(self, request: Sequence, num_computed_tokens: int) -> tuple[int | None, bool]:
        before = self._timed_tiers.read_seconds
        found = super().get_num_new_matched_tokens(request, num_computed_tokens)
        if seconds := self._timed_tiers.read_seconds - before:
            self._read[request.seq_id] = seconds
        return found

    def update_state_after_alloc(
        self, request: Sequence, block_tables: list[list[int]], num_external_tokens: int
    ) -> None:
        operation = self.matched(request)[1]
        read = self._read.pop(request.seq_id, 0.0)
        if num_external_tokens and operation is not None:
            self._step.append((operation.load_seconds, read))
        super().update_state_after_alloc(request, block_tables, num_external_tokens)

    def start_load_kv(self, meta: KVConnectorMetadata) -> None:
        began = time.perf_counter()
        super().start_load_kv(meta)
        copy_seconds = time.perf_counter() - began
        expected = [seconds for seconds, _ in self._step]
        if expected and None not in expected:
            actual = copy_seconds + sum(read for _, read in self._step)
            self.estimates.loads.append(actual / sum(s for s in expected if s))
        self._step = []

    def note_prefill(self, num_tokens: int, seconds: float) -> None:
        per_token = self._timed_tiers.speeds.seconds_per_prefill_token(self._layout)
        if per_token is not None:
            self.estimates.prefills.append(seconds / (num_tokens * per_token))
        super().note_prefill(num_tokens, seconds)
