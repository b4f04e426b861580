"""Decode rates by number of GPUs with tensor (intra-op) or pipeline (inter-op) parallelism; DistServe, section 3.2.

A decode step reads all weights once and is memory-bound. With tensor parallelism each of n GPUs reads its part, so the
step gets shorter, with diminishing returns. With n pipeline stages the latency is unchanged, and n batches run at once.

    intra    latency T / K(n)    throughput b · K(n) / T
    inter    latency T           throughput n · b / T

K(n) is measured where possible. Otherwise it follows Amdahl's law (AFIPS 1967) from the speed-up of two GPUs:
K(n) = 1 / (s + (1 − s)/n), where s = 2/K(2) − 1 is the serial share of the step.
"""

from __future__ import annotations

import math

from msgspec import Struct

from engine.accounting.derived import Derived, Factor, derive
from engine.accounting.impossible import impossible


class Degree(Struct, frozen=True, kw_only=True):
    """Decode on `gpus` GPUs. Latency: seconds between tokens. Throughput: tokens per second of all GPUs."""

    gpus: int
    speedup: Derived
    intra_latency: Derived
    intra_throughput: Derived
    inter_latency: float
    inter_throughput: Derived


def decode_over_degrees(step_seconds: float, batch: int, degrees: list[int], speedup_of_two: float) -> list[Degree]:
    """Return the decode rates for each number of GPUs, from the step time of `batch` sequences on one.

    Raises:
        ValueError: the step time, the batch or a number of GPUs is not positive, or not 1 < K ≤ 2.
    """
    if not (step_seconds > 0 and math.isfinite(step_seconds)):
        raise ValueError("a decode step must take longer than 0 s")
    if batch < 1:
        raise ValueError(f"a batch has at least one sequence, not {batch}")
    if min(degrees, default=1) < 1:
        raise ValueError("decode takes at least one GPU")
    if not 1 < speedup_of_two <= 2:
        raise impossible("speedup", gpus=2, speedup=speedup_of_two)
    return [_degree(step_seconds, batch, gpus, speedup_of_two) for gpus in degrees]


def _degree(step_seconds: float, batch: int, gpus: int, speedup_of_two: float) -> Degree:
    step, size = Factor("T", step_seconds, "step_time"), Factor("b", batch, "batch")
    count = Factor("n", gpus, "gpus")
    left = derive("unsplit_share", "1", "2 / K2 − 1", Factor("K2", speedup_of_two, "speedup_of_two"))
    speedup = derive("speedup", "1", "1 / (s + (1 − s) / n)", left.as_factor("s"), count)
    k = speedup.as_factor("K")
    return Degree(
        gpus=gpus,
        speedup=speedup,
        intra_latency=derive("intra_latency", "s", "T / K", step, k),
        intra_throughput=derive("intra_throughput", "1/s", "b · K / T", size, k, step),
        inter_latency=step_seconds,
        inter_throughput=derive("inter_throughput", "1/s", "n · b / T", count, size, step),
    )


def request_rate(tokens_per_second: float, output_tokens: float) -> float:
    """Return requests per second with `output_tokens` tokens each, the first of which prefill samples.

    Raises:
        ValueError: fewer than 2 output tokens.
    """
    if not output_tokens > 1:
        raise ValueError("output_tokens must be at least 2, because prefill samples the first token")
    return tokens_per_second / (output_tokens - 1)


def goodput_per_gpu(prefill_rate: float, prefill_gpus: int, decode_rate: float, decode_gpus: int) -> float:
    """Return requests per second per GPU with separate prefill and decode GPUs, limited by the slower side.

    `prefill_rate`, `decode_rate`: highest rate of all GPUs of the side at which the share of requests meets its
    objective. Example (DistServe, figure 1): two prefill GPUs with 5.6 each and one decode GPU with 10 give 10 / 3.
    """
    return min(prefill_rate, decode_rate) / (prefill_gpus + decode_gpus)
