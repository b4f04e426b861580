"""Implementation of `EngineLike` with one engine, and the server's limits. Import it lazily: it imports torch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from msgspec.structs import replace

from app.ground.settings import MIB
from app.models.engine_face import (
    BuildEngine,
    EngineLike,
    OwnTiers,
    Prompt,
    RecomputedLike,
    RequestLike,
    RerunLike,
    specs_of,
)
from app.models.live_cluster import LiveCluster
from app.models.observed_layers import CaptureControl, CaptureMixin
from app.models.pool_bytes import pool_parts
from engine.cluster.process_cluster import process_cluster
from engine.cluster.worker_process import AllInUseError, Workers
from engine.config import ConfigError, EngineConfig, SamplingParams
from engine.connector.base import KVConnector
from engine.connector.offloading import OffloadingConnector, may_offload
from engine.connector.tiers.tiers import Tiers
from engine.lab.change import Change
from engine.lab.faults import make_cluster, make_engine
from engine.lab.rerun import Rerun
from engine.model import device as devices
from engine.model.capture import CaptureRequest
from engine.model.loaded import LoadedModel
from engine.model.shipped import SHIPPED
from engine.options.check import over_served_max
from engine.options.refusal import joined, sentence
from engine.setup.resolve import resolve_for
from engine.speculate.settings import speculative_of
from engine.trace.log import TraceReader, TraceWriter
from engine.trace.records import ModelFacts, StepRecord


class LiveEngine(CaptureMixin):
    """An `Engine` with captures enabled."""

    def __init__(
        self,
        model: LoadedModel,
        config: EngineConfig,
        path: Path | None,
        is_small: bool = False,
        connector: KVConnector | None = None,
    ) -> None:
        self._engine = make_engine(model, config, log_path=path, connector=connector)
        self._captures = CaptureControl(model.facts, is_small, self._capture)
        assert self._engine.log is not None  # keep_log
        self.log: TraceWriter = self._engine.log

    @property
    def config(self) -> EngineConfig:
        """Resolved configuration."""
        return self._engine.config

    def submit(self, prompts: Sequence[Prompt], sampling: SamplingParams) -> list[RequestLike]:
        """Submit all prompts or none. Raises RequestError or ConfigError."""
        return list(self._engine.add_requests(specs_of(prompts, sampling)))

    def send(self, prompts: Sequence[Prompt], sampling: SamplingParams) -> None:
        self.submit(prompts, sampling)

    def check(self, prompts: Sequence[Prompt], sampling: SamplingParams) -> None:
        """Raise the errors of `submit`."""
        self._engine.check_requests(specs_of(prompts, sampling))

    def step(self, goes_on: bool = False, waits: bool = True) -> StepRecord:
        return self._engine.step(goes_on)

    def rest(self) -> None:
        self._engine.rest()

    def wake(self) -> None:
        """No-op: no step waits."""

    def abort(self, request_id: str) -> bool:
        return self._engine.abort(request_id)

    def lose_instance(self, index: int) -> None:
        raise ConfigError(sentence("instances.one"))

    def num_unfinished(self) -> int:
        return self._engine.num_unfinished

    def queue_lengths(self) -> tuple[int, int]:
        return self._engine.queue_lengths

    def prefill_pending(self) -> bool:
        return self._engine.prefill_pending()

    def recompute_attention(
        self, seq_id: int, layer: int | None, heads: list[int] | None, num_tokens: int | None, residual: int
    ) -> RecomputedLike:
        return self._engine.recompute_attention(seq_id, layer, heads, num_tokens, residual)

    def rerun(self, source: TraceReader, at: int, change: Change | None, follow: bool) -> RerunLike:
        return Rerun(self._engine, source, at, change, follow)

    def release(self) -> None:
        """Free memory of a GPU immediately. Other memory is freed after the last reader of the log."""
        if devices.ALLOCATOR.has_own_memory(self._engine.model.device):
            self._engine.release()

    def close(self) -> None:
        self._engine.close()

    def _capture(self, request: CaptureRequest | None) -> None:
        self._engine.capture = request


def check_limits(
    facts: ModelFacts, config: EngineConfig, max_pool_bytes: int, draft_models: Collection[str] = ()
) -> None:
    """Check that an engine with these settings may be built for a session or a command.

    `draft_models`: draft models that are allowed in addition to the shipped ones. Settings from a visitor or a log must
    not open any other folder.

    Raises:
        ConfigError: the settings do not work with the model, or exceed the server's limits.
    """
    resolved = resolve_for(config, facts).config
    draft = speculative_of(resolved)
    if draft is not None and draft.model is not None and draft.model not in (*SHIPPED, *draft_models):
        raise ConfigError(sentence("draft.unknown", name=repr(draft.model), known=", ".join(SHIPPED)))
    if wrong := over_served_max(resolved):
        raise ConfigError(wrong)
    parts = pool_parts(config, facts)
    if sum(parts.values()) > max_pool_bytes:
        each = joined(sentence("pool.part", part=part, size=size // MIB) for part, size in parts.items())
        raise ConfigError(sentence("pool.bytes", each=each, most=max_pool_bytes // MIB))


def engine_builder(
    model: LoadedModel,
    max_pool_bytes: int | Callable[[], int],
    is_small: bool = False,
    tiers: Tiers | None = None,
    workers: Workers | None = None,
    draft_models: Collection[str] = (),
) -> BuildEngine:
    """Return a function that builds engines on `model` within the limits.

    Args:
        is_small: the logs will be downloaded, as those of recorded lessons.
        tiers: stores full blocks outside the pools, for engines without their own tiers.
        workers: processes for the instances of a run; None: processes are not allowed.
        draft_models: see `check_limits`.
    """

    def build(config: EngineConfig, path: Path | None, own: OwnTiers | None = None) -> EngineLike:
        limit = max_pool_bytes if isinstance(max_pool_bytes, int) else max_pool_bytes()
        check_limits(model.facts, config, limit, draft_models)
        # several runs share a GPU, so a default pool must not take all of its memory
        if devices.ALLOCATOR.has_own_memory(model.device):
            config = resolve_for(config, model.facts).config
        if config.num_instances and config.instances != "thread":
            if workers is None:
                raise ConfigError(sentence("instances.processes"))
            try:
                return LiveCluster(process_cluster(model, config, workers, log_path=path), is_small)
            except AllInUseError:  # run the instances on one thread; the log's header says so
                config = replace(config, instances="thread")
        if config.num_instances:
            return LiveCluster(make_cluster(model, config, log_path=path), is_small)
        store = tiers if own is None else own.tiers
        connector = OffloadingConnector(store, model, config) if store and may_offload(config) else None
        return LiveEngine(model, config, path, is_small, connector)

    return build
