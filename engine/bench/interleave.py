"""Run variants of one job in turns and compare them as ratios to a named baseline.

Interleaving makes slow drift (temperature, other programs) hit every variant alike; a ratio is taken inside each round,
so what the rounds share cancels out. Medians and a bootstrap interval are reported, never a single run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

Variant = Callable[[], int]  # does the job once, returns the number of output tokens


class VariantResult(Struct, frozen=True, kw_only=True):
    """One variant. Rates are output tokens per second; ratios are rate / the baseline's rate of the same round."""

    name: str
    tokens: int
    seconds: list[float]
    tokens_per_second: float  # median over rounds
    ratio: float  # median over rounds
    ratio_interval: tuple[float, float]  # 95 % bootstrap interval of the median


class Comparison(Struct, frozen=True, kw_only=True):
    """All variants of one job. `busy` is the share of the machine that others used while it ran (0 = quiet)."""

    job: str
    baseline: str
    rounds: int
    busy: float | None
    variants: list[VariantResult]


def interleave(
    job: str,
    baseline: str,
    variants: dict[str, Variant],
    rounds: int,
    seed: int = 0,
    progress: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Warm every variant up once, then run all of them `rounds` times in a shuffled order per round."""
    order = np.random.default_rng(seed)
    for name, run in variants.items():
        progress(f"{job}: warming up {name}")
        run()
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    tokens: dict[str, int] = {}
    before, began = _cpu_times(), time.perf_counter()
    for n in range(rounds):
        for name in order.permutation(list(variants)):
            start = time.perf_counter()
            tokens[str(name)] = variants[str(name)]()
            seconds[str(name)].append(time.perf_counter() - start)
        elapsed = time.perf_counter() - began
        progress(f"{job}: round {n + 1}/{rounds}, {elapsed / (n + 1) * (rounds - n - 1):.0f} s left")
    busy = _busy_share(before, _cpu_times())
    rates = {name: tokens[name] / np.array(times) for name, times in seconds.items()}
    results = []
    for name, times in seconds.items():
        ratios = rates[name] / rates[baseline]
        results.append(
            VariantResult(
                name=name,
                tokens=tokens[name],
                seconds=[round(t, 6) for t in times],
                tokens_per_second=round(float(np.median(rates[name])), 2),
                ratio=round(float(np.median(ratios)), 3),
                ratio_interval=bootstrap_interval(ratios, seed),
            )
        )
    return Comparison(job=job, baseline=baseline, rounds=rounds, busy=busy, variants=results)


def bootstrap_interval(values: np.ndarray[Any, np.dtype[np.float64]], seed: int) -> tuple[float, float]:
    """95 % percentile bootstrap interval of the median (2,000 resamples)."""
    generator = np.random.default_rng(seed)
    medians = np.median(generator.choice(values, (2000, len(values))), axis=1)
    low, high = np.percentile(medians, [2.5, 97.5])
    return round(float(low), 3), round(float(high), 3)


def _cpu_times() -> tuple[float, float] | None:
    """(all CPU seconds the machine spent, CPU seconds of this process), or None where the system does not tell."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
    except OSError:
        return None
    user, nice, system, _idle, _iowait, irq, softirq, _steal = map(int, fields)
    used = (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
    own = os.times()
    return used, own.user + own.system


def _busy_share(before: tuple[float, float] | None, after: tuple[float, float] | None) -> float | None:
    if before is None or after is None:
        return None
    used = after[0] - before[0]
    others = max(0.0, used - (after[1] - before[1]))
    return round(others / used, 3) if used else 0.0
