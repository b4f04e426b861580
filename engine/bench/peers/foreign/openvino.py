"""openvino-genai: continuous batching over blocks of 32 tokens, with float32 arithmetic, keys and values.

The weights are exported once by optimum-intel, which traces the transformers model.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from engine.bench.peers.foreign.serving import Job, serve

BLOCK = 32  # tokens, fixed on the CPU
EXACT = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}  # the default caches keys in 8 bits


def load(source: str, dtype: str, folder: str) -> tuple[str, Callable[[Job], dict[str, Any]]]:
    """Load for `serve`."""
    if dtype != "float32":
        raise ValueError(f"this peer is compared in float32, not in {dtype}")
    target = str(Path(folder) / "openvino")
    tool = Path(sys.executable).parent / "optimum-cli"
    arguments = ["export", "openvino", "-m", source, "--weight-format", "fp32", "--task", "text-generation-with-past"]
    done = subprocess.run([str(tool), *arguments, target], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError("its exporter failed: " + done.stderr.strip().rpartition("\n")[2])
    server = _Server(target)
    return f"openvino-genai {version('openvino-genai')}", server.run


class _Server:
    """Model with one pipeline, which is rebuilt, outside the measured time, when the pool size changes."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._pipelines: dict[tuple[int, ...], Any] = {}
        self._next = 0

    def run(self, job: Job) -> dict[str, Any]:
        """Run all requests at once."""
        import numpy as np
        import openvino
        import openvino_genai as og

        pipeline = self._pipeline(job)
        handles: list[Any] = []
        times: list[list[float]] = [[] for _ in job["lengths"]]
        outputs: list[list[int]] = [[] for _ in job["lengths"]]
        began = time.perf_counter()
        for prompt, length in zip(job["prompts"], job["lengths"], strict=True):
            config = og.GenerationConfig(max_new_tokens=length, ignore_eos=True, do_sample=False)
            ids = openvino.Tensor(np.array([prompt], dtype=np.int64))
            handles.append(pipeline.add_request(self._next, ids, config))
            self._next += 1
        while pipeline.has_non_finished_requests():
            pipeline.step()
            now = time.perf_counter() - began
            for handle, ticks, output in zip(handles, times, outputs, strict=True):
                while handle.can_read():
                    for found in handle.read().values():
                        output += map(int, found.generated_ids)
                        ticks += [now] * len(found.generated_ids)
        return {"seconds": time.perf_counter() - began, "times": times, "outputs": outputs}

    def _pipeline(self, job: Job) -> Any:
        import openvino_genai as og

        size = (job["num_slots"], job["max_num_seqs"], job["max_num_batched_tokens"])
        if size not in self._pipelines:
            scheduler = og.SchedulerConfig()
            scheduler.cache_size = 0  # GiB; 0: by the number of blocks
            scheduler.num_kv_blocks = -(-size[0] // BLOCK) + size[1]  # plus one partial block per sequence
            scheduler.max_num_seqs, scheduler.max_num_batched_tokens = size[1:]
            scheduler.enable_prefix_caching = False
            self._pipelines.clear()  # only one pool in memory
            self._pipelines[size] = og.ContinuousBatchingPipeline(self._folder, scheduler, "CPU", EXACT)
        return self._pipelines[size]


if __name__ == "__main__":
    serve(load)
