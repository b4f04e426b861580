"""llama.cpp through the package cyllama: sequences are batched in one context, as in llama.cpp's server.

The weights are converted to GGUF in float32, or to Q8_0 or Q4_0 if the engine's are int8 or int4. llama.cpp multiplies
quantized weights by activations rounded to 8 bits.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from engine.bench.peers.foreign.gguf_file import convert
from engine.bench.peers.foreign.serving import Job, serve

FTYPES = {"float32": None, "int8-weights": 7, "int4-weights": 2}  # LLAMA_FTYPE_MOSTLY_Q8_0, _Q4_0
FLOAT32 = 0  # GGML_TYPE_F32, of keys and values
THREADS = len(os.sched_getaffinity(0))


def load(source: str, dtype: str, folder: str) -> tuple[str, Callable[[Job], dict[str, Any]]]:
    """Load for `serve`."""
    from cyllama.llama import llama_cpp as c

    if dtype not in FTYPES:
        raise ValueError(f"this peer is compared in {', '.join(FTYPES)}, not in {dtype}")
    file = Path(folder) / "model.gguf"
    convert(Path(source), file)
    if (ftype := FTYPES[dtype]) is not None:
        quantization = c.LlamaModelQuantizeParams()
        quantization.ftype, quantization.nthread = ftype, THREADS
        c.model_quantize(str(file), str(file := file.with_name("quantized.gguf")), quantization)
    return f"llama.cpp (cyllama {version('cyllama')})", _Server(c, file).run


class _Server:
    """Model with one context, which is rebuilt, outside the measured time, when its size changes."""

    def __init__(self, c: Any, file: Path) -> None:
        # cyllama 0.2.18 reads `n_vocab` from its model class, which lacks it
        counted = type("Model", (c.LlamaModel,), {"n_vocab": property(lambda self: self.get_vocab().n_vocab)})
        self._c, self._model = c, counted(str(file), verbose=False)
        self._sampler = c.LlamaSampler()
        self._sampler.add_greedy()
        self._context: tuple[tuple[int, ...], Any] | None = None

    def run(self, job: Job) -> dict[str, Any]:
        """Run all requests at once: prompts in batches of `max_num_batched_tokens`, then one token each per step."""
        prompts, lengths = job["prompts"], job["lengths"]
        wants_logprobs = job["prompt_logprobs"]
        context = self._sized(job)
        context.kv_cache_clear()
        batch = self._c.LlamaBatch(n_tokens=job["max_num_batched_tokens"], embd=0, n_seq_max=len(prompts))
        times: list[list[float]] = [[] for _ in lengths]
        outputs: list[list[int]] = [[] for _ in lengths]
        logprobs: list[float] = []
        began = time.perf_counter()
        queue = [(row, at) for row, prompt in enumerate(prompts) for at in range(len(prompt))]
        while queue:
            part, queue = queue[: job["max_num_batched_tokens"]], queue[job["max_num_batched_tokens"] :]
            batch.reset()
            for row, at in part:
                batch.add(prompts[row][at], at, [row], wants_logprobs or at + 1 == len(prompts[row]))
            context.decode(batch)
            for place, (row, at) in enumerate(part):
                if at + 1 == len(prompts[row]):
                    outputs[row].append(self._sampler.sample(context, place))
                elif wants_logprobs:
                    logprobs.append(_logprob(context.get_logits_ith(place), prompts[row][at + 1]))
            now = time.perf_counter() - began
            for row, at in part:
                if at + 1 == len(prompts[row]):
                    times[row].append(now)
        while rows := [row for row, length in enumerate(lengths) if len(outputs[row]) < length]:
            batch.reset()
            for row in rows:
                batch.add(outputs[row][-1], len(prompts[row]) + len(outputs[row]) - 1, [row], True)
            context.decode(batch)
            chosen = [self._sampler.sample(context, place) for place in range(len(rows))]
            now = time.perf_counter() - began
            for row, token in zip(rows, chosen, strict=True):
                outputs[row].append(token)
                times[row].append(now)
        seconds = time.perf_counter() - began
        return {"seconds": seconds, "times": times, "outputs": outputs, "prompt_logprobs": logprobs}

    def _sized(self, job: Job) -> Any:
        size = (job["num_slots"], len(job["prompts"]), job["max_num_batched_tokens"])
        if self._context is None or self._context[0] != size:
            self._context = None  # only one cache in memory
            params = self._c.LlamaContextParams()
            params.n_ctx, params.n_seq_max, params.n_batch = size
            params.kv_unified = True  # one pool for all sequences
            params.type_k = params.type_v = FLOAT32
            params.n_threads = params.n_threads_batch = THREADS
            self._context = size, self._c.LlamaContext(self._model, params, verbose=False)
        return self._context[1]


def _logprob(logits: Any, token: int) -> float:
    """Return the log probability of `token` under logits [V]."""
    numbers = np.asarray(logits, dtype=np.float64)
    top = numbers.max()
    return float(numbers[token] - top - np.log(np.exp(numbers - top).sum()))


if __name__ == "__main__":
    serve(load)
