"""Implementation of `EngineLike` with several engine instances. Import it lazily, because it imports torch."""

from __future__ import annotations

from collections.abc import Sequence

from app.models.engine_face import Prompt, RecomputedLike, RequestLike, RerunLike, specs_of
from app.models.observed_layers import CaptureControl, CaptureMixin
from engine.cluster.cluster import LONGEST_WAIT, Cluster
from engine.config import ConfigError, EngineConfig, SamplingParams
from engine.lab.change import Change
from engine.options.refusal import sentence
from engine.trace.log import TraceReader, TraceWriter
from engine.trace.records import StepRecord


class LiveCluster(CaptureMixin):
    """A `Cluster` with captures enabled."""

    def __init__(self, cluster: Cluster, is_small: bool = False) -> None:
        self.cluster = cluster
        self.log: TraceWriter = cluster.log
        self._captures = CaptureControl(cluster.model.facts, is_small, cluster.observe)

    @property
    def config(self) -> EngineConfig:
        return self.cluster.config

    def submit(self, prompts: Sequence[Prompt], sampling: SamplingParams) -> list[RequestLike]:
        return list(self.cluster.submit(specs_of(prompts, sampling)))

    def send(self, prompts: Sequence[Prompt], sampling: SamplingParams) -> None:
        self.cluster.send(specs_of(prompts, sampling))

    def check(self, prompts: Sequence[Prompt], sampling: SamplingParams) -> None:
        self.cluster.check(specs_of(prompts, sampling))

    def step(self, goes_on: bool = False, waits: bool = True) -> StepRecord | None:
        return self.cluster.step(LONGEST_WAIT if waits else 0.0, goes_on)

    def rest(self) -> None:
        self.cluster.rest()

    def wake(self) -> None:
        self.cluster.wake()

    def abort(self, request_id: str) -> bool:
        return self.cluster.abort(request_id)

    def lose_instance(self, index: int) -> None:
        self.cluster.lose(index)

    def num_unfinished(self) -> int:
        return self.cluster.num_unfinished

    def queue_lengths(self) -> tuple[int, int]:
        return self.cluster.queue_lengths

    def prefill_pending(self) -> bool:
        return self.cluster.prefill_pending()

    def recompute_attention(
        self, seq_id: int, layer: int | None, heads: list[int] | None, num_tokens: int | None, residual: int
    ) -> RecomputedLike:
        return self.cluster.recompute_attention(seq_id, layer, heads, num_tokens, residual)

    def rerun(self, source: TraceReader, at: int, change: Change | None, follow: bool) -> RerunLike:
        raise ConfigError(sentence("instances.rerun"))

    def release(self) -> None:
        self.cluster.release()

    def close(self) -> None:
        self.cluster.close()
