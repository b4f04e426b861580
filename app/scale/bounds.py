"""Bounds of the numeric parameters of /scale, for its number fields, its links and its endpoints."""

from __future__ import annotations

from msgspec import Struct

from engine.accounting.size import AT_LEAST_ONE, Load

MAX_COUNT = 1 << 40
MAX_BATCH, MAX_CONTEXT = 4096, 131_072
MAX_PROMPT = 1 << 20


class Bounds(Struct, frozen=True, omit_defaults=True):
    """Bounds of a number: at least `min`, more than `over`, at most `max`, an integer if `whole`. The page has the same
    names.
    """

    min: float | None = None
    over: float | None = None
    max: float | None = None
    whole: bool = False


def _counts(low: int, high: int) -> Bounds:
    return Bounds(low, max=high, whole=True)


def _load_bounds(name: str) -> Bounds:
    if name == "utilization":
        return Bounds(over=0, max=1)
    return Bounds(1 if name in AT_LEAST_ONE else 0, max=MAX_COUNT, whole=isinstance(getattr(Load(), name), int))


SHARE = Bounds(0.01, max=0.999)
QUEUES = {
    "rate": Bounds(0, max=1e6),
    "service": Bounds(1e-6, max=1e4),
    "gpus": _counts(2, 64),
    "speedup": Bounds(over=1, max=64),
    "step": Bounds(1e-6, max=100),
    "batch": _counts(1, 100_000),
    "decode_speedup": Bounds(over=1, max=2),
    "output_tokens": _counts(2, 1_000_000),
    "share": SHARE,
    "prompt_tokens": _counts(1, MAX_PROMPT),
}
PLACEMENT = {
    "nodes": _counts(1, 64),
    "node_gpus": _counts(1, 8),
    "network": Bounds(0.01, max=10_000),
    "rate": Bounds(0.001, max=1e5),
    "prompt_tokens": _counts(1, 8192),  # and at most the model's positions
    "output_tokens": _counts(2, 4096),
    "ttft": Bounds(0.001, max=1000),
    "tpot": Bounds(0.0001, max=100),
    "share": SHARE,
}
ROOFLINE = {"batch": _counts(1, MAX_BATCH), "context": _counts(1, MAX_CONTEXT)}
SIZE = {name: _load_bounds(name) for name in Load.__struct_fields__}
SECTIONS = {"size": SIZE, "roofline": ROOFLINE, "queues": QUEUES, "placement": PLACEMENT}
