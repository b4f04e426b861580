"""`generate` of transformers with a growing cache, a pre-allocated one, or none."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import torch
from transformers import StoppingCriteria, StoppingCriteriaList

from engine.bench.measurement import Measurement, RequestTimes
from engine.bench.models import Models
from engine.bench.peers.base import Peer, PeerError, refuse_arrivals
from engine.bench.workload import WorkloadRequest
from engine.config import EngineConfig, SamplingParams


class _Clock(StoppingCriteria):  # type: ignore[misc]
    """Reads the clock after every token and never stops the run."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.ticks: list[float] = []

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        self.ticks.append(time.perf_counter() - self.began)
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


class _GeneratePeer(Peer):
    package: ClassVar[str] = "transformers"
    module: ClassVar[str] = "transformers"
    options: ClassVar[dict[str, Any]]

    def load(self, models: Models, model: str, dtype: str) -> None:
        self._model = models.transformers_model(model, dtype)
        self._model.generation_config.eos_token_id = None  # as with ignore_eos, every request runs to its length

    def run(self, requests: list[WorkloadRequest], sampling: SamplingParams, config: EngineConfig) -> Measurement:
        """Run one left-padded batch until its longest output is complete, and truncate the others to their length."""
        refuse_arrivals(requests, "generate")
        if sampling.temperature != 0 or (sampling.num_sequences > 1 and not sampling.use_beam_search):
            raise PeerError("generate is compared under greedy decoding and beam search only: its samples differ")
        width = max(len(request.prompt) for request in requests)
        ids = torch.zeros(len(requests), width, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, request in enumerate(requests):
            ids[row, width - len(request.prompt) :] = torch.tensor(request.prompt)
            mask[row, width - len(request.prompt) :] = 1
        ids, mask = ids.to(self._model.device), mask.to(self._model.device)
        options = dict(self.options)
        if sampling.use_beam_search:
            options |= {"num_beams": sampling.beam_width, "num_return_sequences": sampling.n, "early_stopping": False}
            options |= {"length_penalty": sampling.length_penalty}
        lengths = [request.output_tokens for request in requests]
        clock = _Clock()
        with torch.inference_mode():
            out = self._model.generate(
                ids,
                attention_mask=mask,
                do_sample=False,
                max_new_tokens=max(lengths),
                pad_token_id=0,
                stopping_criteria=StoppingCriteriaList([clock]),
                **options,
            )
        rows = out.cpu()[:, width:].reshape(len(requests), sampling.n, -1)
        return Measurement(
            seconds=time.perf_counter() - clock.began,
            requests=[
                RequestTimes(0.0, clock.ticks[:n], request.late) for request, n in zip(requests, lengths, strict=True)
            ],
            outputs=[[row[:n].tolist() for row in own] for own, n in zip(rows, lengths, strict=True)],
        )

    def close(self) -> None:
        del self._model


class DynamicCachePeer(_GeneratePeer):
    """The default cache: keys and values are appended to growing tensors."""

    options: ClassVar[dict[str, Any]] = {"cache_implementation": "dynamic"}


class StaticCachePeer(_GeneratePeer):
    """Static cache: pre-allocated tensors of the final length. `generate` compiles its step on GPUs only."""

    options: ClassVar[dict[str, Any]] = {"cache_implementation": "static"}


class NoCachePeer(_GeneratePeer):
    """No cache: each step recomputes all tokens."""

    options: ClassVar[dict[str, Any]] = {"use_cache": False}
