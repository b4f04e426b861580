"""Figures of a variant from its rounds, with intervals and ratios, and comparison of outputs."""

from __future__ import annotations

from engine.bench.record import Figure
from engine.bench.statistics import estimate, rounded

Samples = dict[str, list[float | None]]  # metric -> one value per round


def figures(samples: Samples, baselines: dict[str, Samples], seed: int) -> dict[str, Figure]:
    """Return medians, intervals and ratios; a metric without a value in some round is left out."""
    found = {}
    for name, values in samples.items():
        numbers = [rounded(value) for value in values if value is not None]
        if len(numbers) < len(values):
            continue
        ratios = {}
        for baseline, theirs in baselines.items():
            pairs = list(zip(numbers, theirs.get(name, []), strict=False))
            if pairs and all(other for _, other in pairs):
                ratios[baseline] = estimate([own / other for own, other in pairs if other], seed)
        middle = estimate(numbers, seed)
        found[name] = Figure(
            median=middle.median,
            low=middle.low,
            high=middle.high,
            samples=numbers[:1] if len(set(numbers)) == 1 else numbers,
            ratios=ratios,
        )
    return found


def same_tokens(ours: list[list[list[int]]], theirs: list[list[list[int]]]) -> bool:
    """Return whether two runs have the same outputs.

    If the number of samples per request differs, all outputs are compared regardless of order.
    """
    if [len(outputs) for outputs in ours] == [len(outputs) for outputs in theirs]:
        return ours == theirs
    return sorted(o for outputs in ours for o in outputs) == sorted(o for outputs in theirs for o in outputs)
