"""The least time of a step of prefill and of decode over batch and context, under two roofs, before anything runs.

The work is counted by `work.StepWork`, as for a step that ran. What limits is whichever roof is reached later:

    seconds = max(FLOPs / peak, bytes / bandwidth)      compute-bound where FLOPs / bytes > peak / bandwidth, the ridge

It is a bound from below: kernels that reach neither roof, and what is done once a step, come on top.
"""

from __future__ import annotations

import math
from typing import Literal

from msgspec import Struct

from engine.accounting.derived import Derived, Factor, derive
from engine.accounting.roofline import bytes_moved, least_seconds
from engine.accounting.shape import ModelShape
from engine.accounting.work import StepWork, embedding_params, layer_params
from engine.trace.records import BatchEntry, Work

Bound = Literal["compute", "bandwidth"]
FURTHEST = 1 << 40  # a crossing beyond so many sequences is none that anybody reaches


class Roof(Struct, frozen=True, kw_only=True):
    """Two rates of one device; `source` says who measured or published them."""

    flops_per_second: float
    bytes_per_second: float
    source: str

    def checked(self) -> Roof:
        """Itself.

        Raises:
            ValueError: a rate that is none.
        """
        if not all(0 < rate < math.inf for rate in (self.flops_per_second, self.bytes_per_second)):
            raise ValueError("a roof needs more than 0 operations and more than 0 bytes a second")
        return self

    @property
    def ridge(self) -> Derived:
        """Operations that fit into the time in which one byte is moved."""
        peak, width = self.factors()
        return derive("ridge", "FLOP/B", "P / W", peak, width)

    def factors(self) -> tuple[Factor, Factor]:
        """P and W."""
        return Factor("P", self.flops_per_second, "peak_flops"), Factor("W", self.bytes_per_second, "bandwidth")


class StepTime(Struct, frozen=True, kw_only=True):
    """One step of so many sequences: each computes `tokens`, the last of which sees `context` keys."""

    batch: int
    tokens: int
    context: int
    work: Work
    intensity: Derived
    seconds: Derived
    bound: Bound


class Crossing(Struct, frozen=True, kw_only=True):
    """The smallest batch whose decode step is compute-bound at this many keys; None: no batch is.

    `limit`: the intensity that ever larger batches approach, because each sequence brings its own keys and values.
    """

    context: int
    batch: int | None
    limit: Derived
    exact: Derived | None  # where the line is, between two batches; None with experts, or without a crossing


class StepTimes:
    """Steps of one model under one pair of roofs."""

    def __init__(
        self,
        facts: ModelShape,
        roof: Roof,
        weight_element_bytes: float | None = None,
        kv_bytes_per_token: int | None = None,
    ) -> None:
        """Bytes as in `StepWork`.

        Raises:
            ValueError: the roofs are none.
        """
        self.facts, self.roof = facts, roof.checked()
        self._work = StepWork(facts, weight_element_bytes, kv_bytes_per_token)

    def decode(self, batch: int, context: int) -> StepTime:
        """One token for each of `batch` sequences, each of which sees `context` keys, its own included.

        Raises:
            ValueError: no sequence, or no key.
        """
        _at_least_one(batch, "sequence")
        _at_least_one(context, "key")
        return self._step(batch, 1, context, [_entry(context - 1, 1)] * batch)

    def prefill(self, batch: int, tokens: int) -> StepTime:
        """`batch` prompts of `tokens` tokens, whole and in one step.

        Raises:
            ValueError: no prompt, or one without a token.
        """
        _at_least_one(batch, "prompt")
        _at_least_one(tokens, "token")
        return self._step(batch, tokens, tokens, [_entry(0, tokens)] * batch)

    def crossing(self, context: int) -> Crossing:
        """Where decode turns compute-bound as the batch grows.

        From some batch on, operations are b · f and bytes w + b · k: weights once, keys and values of each. With
        experts that is so once all of them are read; smaller batches are tried one by one.

        Raises:
            ValueError: no key.
        """
        linear = self._all_experts()
        first, second = (self.decode(batch, context).work for batch in (linear, linear + 1))
        flops, own = second.flops - first.flops, bytes_moved(second) - bytes_moved(first)
        shared = bytes_moved(first) - linear * own
        f, k = Factor("f", flops, "flops_of_a_sequence"), Factor("k", own, "bytes_of_a_sequence")
        limit = derive("intensity_limit", "FLOP/B", "f / k", f, k)
        ridge = self.roof.ridge
        for batch in range(1, linear):
            if self.decode(batch, context).bound == "compute":
                return Crossing(context=context, batch=batch, limit=limit, exact=None)
        if limit.value <= ridge.value:
            return Crossing(context=context, batch=None, limit=limit, exact=None)
        exact = derive(
            "crossing_batch", "requests", "I · w / (f − I · k)", ridge.as_factor("I"),
            Factor("w", shared, "bytes_of_all"), f, k,
        )  # fmt: skip
        batch = max(linear, math.floor(exact.value) + 1)
        return Crossing(context=context, batch=batch if batch <= FURTHEST else None, limit=limit, exact=exact)

    def prefill_crossing(self, batch: int = 1) -> int | None:
        """The smallest prompt whose prefill is compute-bound in a step of `batch` of them; None: none of the model's.

        A longer prompt has more operations for each byte, so halving finds it.
        """
        low, high = 0, self.facts.max_position
        if self.prefill(batch, high).bound != "compute":
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.prefill(batch, middle).bound == "compute" else (middle, high)
        return high

    def _step(self, batch: int, tokens: int, context: int, entries: list[BatchEntry]) -> StepTime:
        work = self._work.of(entries)
        flops, moved = Factor("F", work.flops, "flops"), Factor("M", bytes_moved(work), "bytes_moved")
        seconds = derive("step_seconds", "s", "max(F / P, M / W)", flops, moved, *self.roof.factors())
        assert seconds.value == least_seconds(work, self.roof.flops_per_second, self.roof.bytes_per_second)
        intensity = derive("intensity", "FLOP/B", "F / M", flops, moved)
        bound: Bound = "compute" if intensity.value > self.roof.ridge.value else "bandwidth"
        return StepTime(
            batch=batch, tokens=tokens, context=context, work=work, intensity=intensity, seconds=seconds, bound=bound
        )

    def _all_experts(self) -> int:
        """The smallest batch that is counted as reading every weight: 1 without experts."""
        if self.facts.num_active_params is None:
            return 1
        everything = self.facts.num_params - embedding_params(self.facts)
        return math.ceil(everything / max(1, layer_params(self.facts)))


def _entry(start: int, tokens: int) -> BatchEntry:
    return BatchEntry(
        seq_id=0,
        phase="prefill" if start == 0 and tokens > 1 else "decode",
        start=start,
        token_ids=[0] * tokens,
        context_len=start + tokens,
        samples=True,
    )


def _at_least_one(number: int, what: str) -> None:
    if number < 1:
        raise ValueError(f"a step has at least one {what}, not {number}")
