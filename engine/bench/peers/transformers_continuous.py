"""Continuous batching of transformers over its paged cache."""

from __future__ import annotations

import inspect
import logging
import time
from typing import Any, ClassVar

from transformers import ContinuousBatchingConfig, GenerationConfig

from engine.bench.measurement import Measurement, RequestTimes
from engine.bench.models import Models
from engine.bench.peers.base import Peer, PeerError, refuse_arrivals, refuse_sampling
from engine.bench.workload import WorkloadRequest
from engine.config import EngineConfig, SamplingParams
from engine.setup.resolve import resolve

PAGE = 256  # tokens, its default
# the page size is called block_size in older versions of transformers
SIZE = "page_size" if "page_size" in inspect.signature(ContinuousBatchingConfig).parameters else "block_size"
RESULT_SECONDS = 60  # the thread counts as dead after so long without a result


class ContinuousBatchingPeer(Peer):
    """Peer with this engine's pool size, token budget and number of sequences. Neither engine shares prefixes."""

    package: ClassVar[str] = "transformers"
    module: ClassVar[str] = "transformers"

    def load(self, models: Models, model: str, dtype: str) -> None:
        self._model = models.transformers_model(model, dtype)
        logging.getLogger("ContinuousBatchingLogger").setLevel(logging.CRITICAL)  # hide a warning about psutil per run

    def run(self, requests: list[WorkloadRequest], sampling: SamplingParams, config: EngineConfig) -> Measurement:
        refuse_arrivals(requests, "this peer")
        refuse_sampling(sampling, "this peer")
        pool = resolve(config, self._model.config.max_position_embeddings)
        with self._model.continuous_batching_context_manager(
            generation_config=GenerationConfig(do_sample=False, eos_token_id=-1, pad_token_id=0),
            continuous_batching_config=ContinuousBatchingConfig(
                **{SIZE: PAGE},
                num_blocks=max(config.max_num_seqs, pool.num_blocks * pool.config.block_size // PAGE),
                max_batch_tokens=config.max_num_batched_tokens,
                max_requests_per_batch=config.max_num_seqs,
                allow_block_sharing=False,
            ),
        ) as manager:
            # starting its thread and allocating its pool are not timed, like this engine's construction
            began = time.perf_counter()
            for index, request in enumerate(requests):
                manager.add_request(
                    request.prompt, request_id=str(index), max_new_tokens=request.output_tokens, record_timestamps=True
                )
            found: dict[str, Any] = {}
            while len(found) < len(requests):
                result = manager.get_result(timeout=RESULT_SECONDS)
                if result is None:
                    raise PeerError("its thread stopped without a result")
                if result.error:
                    raise PeerError(f"a request failed: {result.error}")
                if result.is_finished():
                    found[result.request_id] = result
            seconds = time.perf_counter() - began
        results = [found[str(index)] for index in range(len(requests))]
        return Measurement(
            seconds=seconds,
            requests=[
                RequestTimes(0.0, [stamp - began for stamp in result.timestamps], request.late)
                for request, result in zip(requests, results, strict=True)
            ],
            outputs=[[list(result.generated_tokens)] for result in results],
        )

    def close(self) -> None:
        del self._model
