"""Formulas of the metrics in `metrics.py`: functions of a run and its context.

A formula returns None if the run lacks the data (a peer has no block pool) or the figure is undefined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np

from engine.accounting.roofline import least_seconds
from engine.bench.instances import InstancesWork
from engine.bench.measurement import EngineWork, Measurement
from engine.trace.goodput import SLO
from engine.trace.operations import Medium
from engine.trace.records import InstanceRole, Phase


@dataclass(frozen=True, slots=True)
class Context:
    """Inputs of a metric besides the run itself."""

    slo: SLO | None = None
    reference: Measurement | None = None  # a run of the first baseline at the same point
    bytes_per_second: float | None = None  # memory bandwidth of this machine, measured by copying, read and written
    flops_per_second: float | None = None  # measured by a matrix product


Formula = Callable[[Measurement, Context], float | None]


def percentile(values: list[float], q: float) -> float | None:
    """Return a percentile, linearly interpolated; None without values."""
    return float(np.percentile(values, q)) if values else None


def share(part: float, whole: float) -> float | None:
    """Return part / whole, 0 to 1; None if the whole is 0."""
    return part / whole if whole else None


def of_work(read: Callable[[EngineWork], float | None]) -> Formula:
    """Return a formula over the engine's records; None for a peer's run."""
    return lambda m, _: None if m.work is None else read(m.work)


def ttft(q: float) -> Formula:
    """Percentile of the requests' time to first token, in seconds."""
    return lambda m, _: percentile([r.ttft for r in m.counted_requests if r.ttft is not None], q)


def tpot(q: float) -> Formula:
    """Percentile of the requests' time per output token, in seconds."""
    return lambda m, _: percentile([r.tpot for r in m.counted_requests if r.tpot is not None], q)


def itl(q: float) -> Formula:
    """Percentile of all gaps between tokens, in seconds."""
    return lambda m, _: percentile([gap for r in m.counted_requests for gap in r.itl], q)


def itl_max(m: Measurement, _: Context) -> float | None:
    """Return the longest gap between two tokens of a request, in seconds."""
    return max((gap for r in m.counted_requests for gap in r.itl), default=None)


def late_ttft(m: Measurement, _: Context) -> float | None:
    """Return the time to first token of the late request, in seconds."""
    return next((request.ttft for request in m.requests if request.late), None)


def output_tokens_per_second(m: Measurement, _: Context) -> float:
    """Return output tokens / duration of the run."""
    return m.num_output_tokens / m.seconds


def requests_per_second(m: Measurement, _: Context) -> float:
    """Return requests / duration of the run."""
    return len(m.requests) / m.seconds


def goodput(m: Measurement, context: Context) -> float | None:
    """Return the requests per second that met their objectives (DistServe, https://arxiv.org/abs/2401.09670)."""
    met = _num_met(m, context)
    return None if met is None else met / m.seconds


def slo_attainment(m: Measurement, context: Context) -> float | None:
    """Return the share of requests that met their objectives."""
    met = _num_met(m, context)
    return None if met is None else met / len(m.counted_requests)


def _num_met(m: Measurement, context: Context) -> int | None:
    return None if context.slo is None else sum(context.slo.is_met(r.ttft, r.tpot) for r in m.counted_requests)


def bandwidth_share(m: Measurement, context: Context) -> float | None:
    """Return (bytes of decoding / the machine's bandwidth) / measured decode time."""
    if m.work is None or context.bytes_per_second is None:
        return None
    return share(m.work.decode_bytes / context.bytes_per_second, m.work.decode_seconds)


def prefill_step_seconds(work: EngineWork) -> float | None:
    """Return the median of steps with prefill only, in seconds."""
    return median(work.prefill_steps) if work.prefill_steps else None


def roofline_seconds(phase: Phase) -> Formula:
    """Median of the minimum step times of a phase under the machine's two roofs, in seconds."""

    def least(m: Measurement, context: Context) -> float | None:
        works = [] if m.work is None else m.work.prefill_works if phase == "prefill" else m.work.decode_works
        if not works or context.bytes_per_second is None or context.flops_per_second is None:
            return None
        return median(least_seconds(work, context.flops_per_second, context.bytes_per_second) for work in works)

    return least


def roofline_share(phase: Phase) -> Formula:
    """Minimum step time of a phase / measured step time, both medians: 1 is the bound."""

    def found(m: Measurement, context: Context) -> float | None:
        bound = roofline_seconds(phase)(m, context)
        measured = m.work and (prefill_step_seconds if phase == "prefill" else decode_step_seconds)(m.work)
        return None if bound is None or not measured else bound / measured

    return found


def decode_step_seconds(work: EngineWork) -> float | None:
    """Return the median decode step, in seconds."""
    return median(work.decode_steps) if work.decode_steps else None


def decode_part(name: str) -> Formula:
    """Median of one part of the decode steps, a field of StepParts, in seconds."""
    return of_work(lambda w: median(getattr(parts, name) for parts in w.decode_parts) if w.decode_parts else None)


def own_share(work: EngineWork) -> float | None:
    """Return the median share of a decode step outside the forward pass."""
    return median(parts.own_share for parts in work.decode_parts) if work.decode_parts else None


def external_share(medium: Medium) -> Formula:
    """Share of prompt tokens loaded from a tier at first admissions."""
    return of_work(lambda w: share(w.external_tokens[medium], w.queried_tokens))


def over_estimate(field: str, q: float) -> Formula:
    """Percentile of actual / expected step times; `field`: of Estimates. None without tiers."""
    return of_work(lambda w: percentile(getattr(w.estimates, field), q) if w.estimates is not None else None)


def idle_share(role: InstanceRole | None = None) -> Formula:
    """Share of the run in which instances of a role, or all, were idle; None without instances."""
    return lambda m, _: m.instances.idle_share(m.seconds, role) if m.instances is not None else None


def rejected(m: Measurement, _: Context) -> float | None:
    """Return the number of requests that the router rejected as too late."""
    return m.instances.rejected if m.instances is not None else None


def of_transfers(read: Callable[[InstancesWork], float | None]) -> Formula:
    """Formula over the transfers between instances; None without instances."""
    return lambda m, _: read(m.instances) if m.instances and any(w.role == "decode" for w in m.instances.each) else None


def nll(m: Measurement, _: Context) -> float | None:
    """Return the mean negative log probability of the prompts' tokens, in nats per token."""
    return -float(np.mean(m.prompt_logprobs)) if m.prompt_logprobs else None


def output_nll(work: EngineWork) -> float | None:
    """Return the mean negative log probability of the outputs' tokens, in nats per token."""
    return -float(np.mean(work.output_logprobs)) if work.output_logprobs else None


def full_nll(work: EngineWork) -> float | None:
    """Return `output_nll` under the full cache, if outputs are compared with it."""
    return -float(np.mean([one.logprob for one in work.full])) if work.full else None


def divergence(work: EngineWork) -> float | None:
    """Return the mean KL divergence between the outputs' distributions and those of the full cache, in nats."""
    return float(np.mean([one.divergence for one in work.full])) if work.full else None


def choices_changed(work: EngineWork) -> float | None:
    """Return the share of outputs whose most probable token differs from the full cache's."""
    return share(sum(one.own_token_id != one.token_id for one in work.full), len(work.full))


def logprob_error(m: Measurement, context: Context) -> float | None:
    """Return the mean absolute difference between log probabilities of prompt tokens and the reference's, in nats."""
    reference = context.reference.prompt_logprobs if context.reference else []
    if not m.prompt_logprobs or not reference:
        return None
    return float(np.mean(np.abs(np.subtract(m.prompt_logprobs, reference))))


def tokens_equal(m: Measurement, context: Context) -> float | None:
    """Return output tokens before the first difference / output tokens, over the requests' first outputs."""
    if context.reference is None:
        return None
    equal = total = 0
    for ours, theirs in zip(m.outputs, context.reference.outputs, strict=True):
        pairs = list(zip(ours[0], theirs[0], strict=False))
        equal += next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
        total += len(theirs[0])
    return share(equal, total)
