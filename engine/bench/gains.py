"""Verdicts on ratios in plain language: "5.0 times faster", "a third of the memory".

`static/js/bench/gains.js` mirrors this module with the same texts; a test compares both.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from importlib.resources import files
from typing import Literal, NamedTuple

from engine.bench.metrics import Better
from engine.trace.messages import content_of, in_language

Kind = Literal["rate", "run", "time", "memory", "work", "tokens", "amount"]
MEMORY = ("kv_bytes_per_token", "peak_blocks", "peak_kv_bytes")  # metrics of the cache's memory
FRACTIONS = {"half": 1 / 2, "third": 1 / 3, "two_thirds": 2 / 3, "quarter": 1 / 4, "three_quarters": 3 / 4}
FRACTIONS |= {"fifth": 1 / 5, "eighth": 1 / 8, "tenth": 1 / 10}
SAME, EXACT, ABOUT = 0.005, 0.005, 0.04  # relative distance to 1, or to a fraction
FEW = 0.09  # below it the text is "n times less"


class Gain(NamedTuple):
    """Verdict on a ratio: `key` and `kind` select the text, `values` fill it. `good`: None if neither is better."""

    key: str
    kind: Kind
    values: Mapping[str, str]
    good: bool | None

    def text(self, language: str) -> str:
        """Return the text in a language."""
        texts = gain_texts(language)
        values = {name: texts.get(f"gain.fraction.{value}", value) for name, value in self.values.items()}
        for key in (f"gain.{self.kind}.{self.key}", f"gain.{self.key}"):
            if key in texts:
                return texts[key].format(**values)
        raise KeyError(f"no words for {self.kind}.{self.key}")


def gain(
    metric: str, unit: str, better: Better | None, ratio: float, low: float | None = None, high: float | None = None
) -> Gain:
    """Return the verdict on a metric's ratio. `low`, `high`: its interval; if it contains 1, the result is unclear."""
    kind = kind_of(metric, unit)
    if low is not None and high is not None and low < high and low <= 1 <= high:
        return Gain("unclear", kind, {}, None)
    if abs(ratio - 1) < SAME:
        return Gain("same", kind, {}, None)
    good = None if better is None else (ratio > 1) == (better == "higher")
    key, values = _phrase(kind, ratio)
    return Gain(key, kind, values, good)


def kind_of(metric: str, unit: str) -> Kind:
    """Return the kind of text for a metric."""
    if unit.endswith("/s"):
        return "rate"
    if unit == "s":
        return "run" if metric == "seconds" else "time"
    if metric in MEMORY:
        return "memory"
    return {"FLOP": "work", "tokens": "tokens"}.get(unit, "amount")  # type: ignore[return-value]


def _phrase(kind: Kind, ratio: float) -> tuple[str, dict[str, str]]:
    if ratio <= 0:
        return "none", {}
    if kind in ("rate", "run"):
        speed = ratio if kind == "rate" else 1 / ratio
        if speed >= 2:
            return "times_faster", {"n": times(speed)}
        if speed > 1:
            return "percent_faster", {"n": percent(speed - 1)}
        if speed > 0.5:
            return "percent_slower", {"n": percent(1 - speed)}
        return "times_slower", {"n": times(1 / speed)}
    if ratio >= 2:
        return "times_more", {"n": times(ratio)}
    if ratio > 1:
        return "percent_more", {"n": percent(ratio - 1)}
    if kind == "time":
        if ratio > 0.5:
            return "percent_less", {"n": percent(1 - ratio)}
        return "times_less", {"n": times(1 / ratio)}
    return ("times_less", {"n": times(1 / ratio)}) if ratio < FEW else _part(ratio)


def _part(ratio: float) -> tuple[str, dict[str, str]]:
    """Return a nearby fraction that has a name, else percent."""
    name, nearest = min(FRACTIONS.items(), key=lambda item: abs(item[1] - ratio))
    off = abs(ratio / nearest - 1)
    if off <= ABOUT:
        return ("fraction" if off <= EXACT else "about"), {"fraction": name}
    return "share", {"of": percent(ratio)}


def times(value: float) -> str:
    """Format a ratio with one decimal below ten. Ties round up, as in the page."""
    return str(math.floor(value + 0.5)) if value >= 9.95 else f"{math.floor(value * 10 + 0.5) / 10:.1f}"


def percent(share: float) -> str:
    """Format a share as integer percent; below ten with one decimal if it is not 0."""
    value = 100 * share
    return str(math.floor(value + 0.5)) if value >= 9.95 else f"{math.floor(value * 10 + 0.5) / 10:g}"


@functools.cache
def gain_texts(language: str) -> dict[str, str]:
    """Return key -> text in a language, with English for missing keys."""
    folder = files("engine.bench").joinpath("words")
    return in_language(language, lambda code: content_of(folder.joinpath(f"gains.{code}.json")))
