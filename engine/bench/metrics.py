"""What can be measured: each metric's unit, what is better, where it comes from, and how it follows from a run.

`clock`: seconds, or something a second; differs from run to run. `count`: follows from the log's records without a
clock; the same on every machine, unless requests arrive by the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np

from engine.bench.measurement import SLO, EngineWork, Measurement, RequestTimes
from engine.bench.text import Text

Source = Literal["clock", "count"]
Better = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True)
class Context:
    """What a metric may need besides the run itself."""

    slo: SLO | None = None
    reference: Measurement | None = None  # a run of the first baseline at the same point
    bytes_per_second: float | None = None  # what a copy reaches in this machine's memory, read and written


@dataclass(frozen=True, slots=True)
class Metric:
    """`of` gives None where the run cannot tell (a peer has no block pool) or the figure is not defined."""

    name: str
    unit: str
    better: Better | None
    source: Source
    title: Text
    of: Callable[[Measurement, Context], float | None]


def percentile(values: list[float], q: float) -> float | None:
    """Linear between the two nearest; None without values."""
    return float(np.percentile(values, q)) if values else None


def meets(request: RequestTimes, slo: SLO) -> bool:
    """Whether a request met its objectives; one token alone has no TPOT to miss."""
    ttft, tpot = request.ttft, request.tpot
    return ttft is not None and ttft <= slo.ttft and (tpot is None or tpot <= slo.tpot)


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _goodput(m: Measurement, context: Context) -> float | None:
    met = _num_met(m, context)
    return None if met is None else met / m.seconds


def _attainment(m: Measurement, context: Context) -> float | None:
    met = _num_met(m, context)
    return None if met is None else met / len(m.watched)


def _num_met(m: Measurement, context: Context) -> int | None:
    return None if context.slo is None else sum(meets(request, context.slo) for request in m.watched)


def _ttft(q: float) -> Callable[[Measurement, Context], float | None]:
    return lambda m, _: percentile([r.ttft for r in m.watched if r.ttft is not None], q)


def _tpot(q: float) -> Callable[[Measurement, Context], float | None]:
    return lambda m, _: percentile([r.tpot for r in m.watched if r.tpot is not None], q)


def _itl(q: float) -> Callable[[Measurement, Context], float | None]:
    return lambda m, _: percentile([gap for r in m.watched for gap in r.itl], q)


def _late_ttft(m: Measurement, _: Context) -> float | None:
    return next((request.ttft for request in m.requests if request.late), None)


def _of_work(read: Callable[[EngineWork], float | None]) -> Callable[[Measurement, Context], float | None]:
    return lambda m, _: None if m.work is None else read(m.work)


def _bandwidth_share(m: Measurement, context: Context) -> float | None:
    """The least time that decoding could take, all bytes at the machine's bandwidth, over the time it took."""
    if m.work is None or context.bytes_per_second is None:
        return None
    return _share(m.work.decode_bytes / context.bytes_per_second, m.work.decode_seconds)


def _part(name: str) -> Callable[[Measurement, Context], float | None]:
    def of(work: EngineWork) -> float | None:
        return median(getattr(parts, name) for parts in work.decode_parts) if work.decode_parts else None

    return _of_work(of)


def _nll(work: EngineWork) -> float | None:
    return -float(np.mean(work.prompt_logprobs)) if work.prompt_logprobs else None


def _logprob_error(m: Measurement, context: Context) -> float | None:
    reference = context.reference and context.reference.work
    if m.work is None or not reference or not reference.prompt_logprobs:
        return None
    return float(np.mean(np.abs(np.subtract(m.work.prompt_logprobs, reference.prompt_logprobs))))


def _tokens_equal(m: Measurement, context: Context) -> float | None:
    """Output tokens before the first difference, of all requests' first outputs, over how many there are."""
    if context.reference is None:
        return None
    equal = total = 0
    for ours, theirs in zip(m.outputs, context.reference.outputs, strict=True):
        pairs = list(zip(ours[0], theirs[0], strict=False))
        equal += next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
        total += len(theirs[0])
    return _share(equal, total)


def _metrics() -> list[Metric]:
    def clock(name: str, unit: str, better: Better, en: str, zh: str, of: Callable[..., float | None]) -> Metric:
        return Metric(name, unit, better, "clock", Text(en=en, zh=zh), of)

    def count(
        name: str, unit: str, better: Better | None, en: str, zh: str, of: Callable[[EngineWork], float | None]
    ) -> Metric:
        return Metric(name, unit, better, "count", Text(en=en, zh=zh), _of_work(of))

    latencies = [
        ("ttft", "time to first token", "首 token 延迟", _ttft),
        ("tpot", "time per output token", "每 token 平均间隔", _tpot),
        ("itl", "time between tokens", "token 间隔", _itl),
    ]
    percentiles = [
        clock(
            f"{name}_p{q}", "s", "lower", f"{name.upper()}, {ordinal} ({en})", f"{name.upper()} {zh_q}（{zh}）", of(q)
        )
        for name, en, zh, of in latencies
        for q, ordinal, zh_q in (
            (50, "median", "中位数"),
            (90, "90th percentile", "90 分位"),
            (99, "99th percentile", "99 分位"),
        )
    ]
    parts = [
        clock(
            f"decode_{part}_seconds", "s", "lower", f"of a decode step: {en}, median", f"解码步中：{zh}（中位数）",
            _part(part),
        )
        for part, en, zh in (
            ("schedule", "schedule", "调度"),
            ("prepare", "prepare", "准备"),
            ("forward", "forward pass", "前向计算"),
            ("sample", "sample", "采样"),
            ("record", "record", "记录"),
        )
    ]  # fmt: skip
    return [
        clock("seconds", "s", "lower", "whole run", "总时间", lambda m, _: m.seconds),
        clock(
            "output_tokens_per_second",
            "tokens/s",
            "higher",
            "output tokens a second",
            "每秒输出 token",
            lambda m, _: m.num_output_tokens / m.seconds,
        ),
        clock(
            "requests_per_second",
            "requests/s",
            "higher",
            "finished requests a second",
            "每秒完成请求",
            lambda m, _: len(m.requests) / m.seconds,
        ),
        clock(
            "prefill_tokens_per_second",
            "tokens/s",
            "higher",
            "prompt tokens a second, in steps of prefill alone",
            "预填充每秒 token（仅纯预填充步）",
            _of_work(lambda w: _share(w.prefill_tokens, w.prefill_seconds)),
        ),
        clock(
            "decode_tokens_per_second",
            "tokens/s",
            "higher",
            "tokens a second, in steps of decode alone",
            "解码每秒 token（仅纯解码步）",
            _of_work(lambda w: _share(w.decode_tokens, w.decode_seconds)),
        ),
        clock(
            "decode_step_seconds",
            "s",
            "lower",
            "a decode step, median",
            "一个解码步的时间（中位数）",
            _of_work(lambda w: median(w.decode_steps) if w.decode_steps else None),
        ),
        clock(
            "bandwidth_share",
            "share",
            "higher",
            "share of the memory-bandwidth bound, in steps of decode alone",
            "达到的内存带宽上限占比（仅纯解码步）",
            _bandwidth_share,
        ),
        *parts,
        clock(
            "own_share",
            "share",
            "lower",
            "share of a decode step outside the forward pass, median",
            "解码步中前向计算以外的占比（中位数）",
            _of_work(lambda w: median(p.own_share for p in w.decode_parts) if w.decode_parts else None),
        ),
        *percentiles,
        clock(
            "itl_max",
            "s",
            "lower",
            "ITL, longest gap",
            "最长的 token 间隔",
            lambda m, _: max((gap for r in m.watched for gap in r.itl), default=None),
        ),
        clock("late_ttft", "s", "lower", "TTFT of the long prompt", "长提示的 TTFT", _late_ttft),
        clock(
            "goodput",
            "requests/s",
            "higher",
            "goodput: requests a second within the SLO",
            "有效吞吐（满足 SLO）",
            _goodput,
        ),
        clock("slo_attainment", "share", "higher", "requests within the SLO", "满足 SLO 的请求占比", _attainment),
        count("steps", "steps", "lower", "steps", "步数", lambda w: w.num_steps),
        count("computed_tokens", "tokens", "lower", "tokens computed", "计算的 token 数", lambda w: w.computed_tokens),
        count("flops", "FLOP", "lower", "floating-point operations, derived", "浮点运算量（推导）", lambda w: w.flops),
        count("bytes_moved", "B", "lower", "bytes moved, derived", "搬运字节（推导）", lambda w: w.bytes_moved),
        count(
            "kv_read_bytes", "B", "lower", "KV bytes read, derived", "读取的 KV 字节（推导）", lambda w: w.kv_read_bytes
        ),
        count(
            "kv_bytes_per_token",
            "B",
            "lower",
            "KV bytes a token",
            "每 token 的 KV 字节",
            lambda w: w.kv_bytes_per_token,
        ),
        count(
            "waste",
            "share",
            "lower",
            "reserved slots without content, over all steps",
            "预留但没有内容的槽位占比（全部步）",
            lambda w: _share(w.slots_wasted, w.slots_held),
        ),
        count("peak_blocks", "blocks", "lower", "most blocks held", "占用块数峰值", lambda w: w.peak_blocks),
        count("peak_kv_bytes", "B", "lower", "most KV bytes held", "占用 KV 字节峰值", lambda w: w.peak_bytes),
        count(
            "peak_running",
            "sequences",
            "higher",
            "most sequences in a step",
            "同一步中的序列数峰值",
            lambda w: w.peak_running,
        ),
        count(
            "refused_at_step",
            "step",
            "higher",
            "first step that ran out of blocks",
            "首次块不够用的步",
            lambda w: w.refused_at_step,
        ),
        count("preemptions", "times", "lower", "preemptions", "抢占次数", lambda w: w.preemptions),
        count(
            "recomputed_tokens",
            "tokens",
            "lower",
            "tokens lost to preemption",
            "因抢占重算的 token",
            lambda w: w.recomputed_tokens,
        ),
        count("swapped_bytes", "B", "lower", "bytes swapped, both ways", "换出换入的字节", lambda w: w.swapped_bytes),
        count(
            "hit_rate",
            "share",
            "higher",
            "prompt tokens found in the prefix cache",
            "前缀缓存命中的提示 token 占比",
            lambda w: _share(w.hit_tokens, w.asked_tokens),
        ),
        count(
            "saved_by_sharing",
            "share",
            "higher",
            "KV slots that sharing saves",
            "共享省下的 KV 槽位占比",
            lambda w: _share(w.tokens_logical - w.tokens_held, w.tokens_logical),
        ),
        count("nll", "nats", "lower", "loss on the prompt, nats a token", "提示上的损失（nats/token）", _nll),
        Metric(
            "logprob_error",
            "nats",
            "lower",
            "count",
            Text(en="mean change of a log probability", zh="对数概率的平均变化"),
            _logprob_error,
        ),
        Metric(
            "tokens_equal",
            "share",
            "higher",
            "count",
            Text(
                en="output equal to the baseline's, up to the first difference",
                zh="与基线相同的输出占比（到首个不同处）",
            ),
            _tokens_equal,
        ),
    ]


METRICS: dict[str, Metric] = {metric.name: metric for metric in _metrics()}
