"""Predicted minimum time of prefill and decode steps by batch and context, under two roofs.

`work.StepWork` counts the work, as for executed steps. The slower roof limits the step:

    seconds = max(FLOPs / peak, bytes / bandwidth)      compute-bound where FLOPs / bytes > peak / bandwidth, the ridge

This is a lower bound, because kernels do not reach the roofs and per-step overhead is ignored. For a mixture of experts
it counts the experts of one token, as if all tokens chose the same experts. The time with evenly chosen experts is also
computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from engine.accounting.derived import Derived, Factor, derive
from engine.accounting.memory import bytes_per_weight
from engine.accounting.roofline import bytes_moved, least_seconds
from engine.accounting.shape import ModelShape
from engine.accounting.work import StepWork, expert_params, experts_read
from engine.trace.records import BatchEntry, Work

Bound = Literal["compute", "bandwidth"]
MAX_CROSSING = 1 << 40  # sequences; a larger crossing is reported as None


class Roof(Struct, frozen=True, kw_only=True):
    """The two peak rates of a device. `source`: measurement or publication."""

    flops_per_second: float
    bytes_per_second: float
    source: str

    def checked(self) -> Roof:
        """Validate the rates and return self. Raises ValueError: a rate is not above 0."""
        if not all(0 < rate < math.inf for rate in (self.flops_per_second, self.bytes_per_second)):
            raise ValueError("flops_per_second and bytes_per_second must be above 0")
        return self

    @property
    def ridge(self) -> Derived:
        """Number of operations in the time that moving one byte takes."""
        peak, width = self.factors()
        return derive("ridge", "FLOP/B", "P / W", peak, width)

    def factors(self) -> tuple[Factor, Factor]:
        return Factor("P", self.flops_per_second, "peak_flops"), Factor("W", self.bytes_per_second, "bandwidth")


class StepTime(Struct, frozen=True, kw_only=True):
    """Step of `batch` sequences, each of which computes `tokens` tokens. The last token attends to `context` keys."""

    batch: int
    tokens: int
    context: int
    work: Work
    intensity: Derived
    seconds: Derived
    bound: Bound
    experts: Derived | None  # mean number of experts read per layer if chosen evenly; None: no experts
    evenly: Derived | None  # minimum seconds with these experts


class Crossing(Struct, frozen=True, kw_only=True):
    """Smallest batch whose decode step with `context` keys is compute-bound; None if there is none.

    `limit`: intensity that large batches approach, because each sequence reads its own keys and values.
    """

    context: int
    batch: int | None
    limit: Derived
    exact: Derived | None  # fractional batch at the crossing; None if there is none
    evenly: int | None  # `batch` for evenly chosen experts


class StepTimes:
    """Steps of one model under one pair of roofs."""

    def __init__(
        self,
        facts: ModelShape,
        roof: Roof,
        weight_element_bytes: float | None = None,
        kv_bytes_per_token: int | None = None,
        expert_element_bytes: float | None = None,
    ) -> None:
        """Bind the model and the roofs. For the bytes see `StepWork`.

        Raises:
            ValueError: a roof is not above 0.
        """
        self.facts, self.roof = facts, roof.checked()
        self._work = StepWork(facts, weight_element_bytes, kv_bytes_per_token, "same", expert_element_bytes)
        size = bytes_per_weight(facts) if weight_element_bytes is None else weight_element_bytes
        self._expert_bytes = expert_params(facts) * (size if expert_element_bytes is None else expert_element_bytes)

    def decode(self, batch: int, context: int) -> StepTime:
        """Return the step that computes one token for each of `batch` sequences, with `context` keys each.

        Raises:
            ValueError: `batch` or `context` is less than 1.
        """
        _at_least_one(batch, "sequence")
        _at_least_one(context, "key")
        return self._step(batch, 1, context, [_entry(context - 1, 1)] * batch)

    def prefill(self, batch: int, tokens: int) -> StepTime:
        """Return the step that computes `batch` prompts of `tokens` tokens. Raises ValueError: one is below 1."""
        _at_least_one(batch, "prompt")
        _at_least_one(tokens, "token")
        return self._step(batch, tokens, tokens, [_entry(0, tokens)] * batch)

    def crossing(self, context: int) -> Crossing:
        """Return the batch at which decode becomes compute-bound.

        A batch of b has b · f operations and moves w + b · k bytes: weights once, keys and values per sequence.

        Raises:
            ValueError: `context` is less than 1.
        """
        first, second = (self.decode(batch, context).work for batch in (1, 2))
        flops, own = second.flops - first.flops, bytes_moved(second) - bytes_moved(first)
        shared = bytes_moved(first) - own
        f, k = Factor("f", flops, "flops_of_a_sequence"), Factor("k", own, "bytes_of_a_sequence")
        limit = derive("intensity_limit", "FLOP/B", "f / k", f, k)
        ridge = self.roof.ridge
        if limit.value <= ridge.value:
            return Crossing(context=context, batch=None, limit=limit, exact=None, evenly=None)
        exact = derive(
            "crossing_batch", "requests", "I · w / (f − I · k)", ridge.as_factor("I"),
            Factor("w", shared, "bytes_of_all"), f, k,
        )  # fmt: skip
        batch = max(1, math.floor(exact.value) + 1)
        return Crossing(
            context=context,
            batch=batch if batch <= MAX_CROSSING else None,
            limit=limit,
            exact=exact,
            evenly=self._first_batch_evenly(batch, flops - ridge.value * own, ridge.value * shared),
        )

    def _first_batch_evenly(self, minimum: int, gain: float, shared: float) -> int | None:
        """Return the smallest batch b >= `minimum` with b · gain > shared + ridge · (bytes of further experts).

        The right side grows less than linearly with b.
        """
        more = self.roof.ridge.value * self._expert_bytes

        def crosses(batch: int) -> bool:
            return batch * gain > shared + more * self._further_experts(batch)

        if not more or crosses(minimum):
            return minimum if minimum <= MAX_CROSSING else None
        low, high = minimum, 2 * minimum
        while not crosses(high):
            low, high = high, 2 * high
            if high > MAX_CROSSING:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if crosses(middle) else (middle, high)
        return high

    def _further_experts(self, tokens: int) -> float:
        """Return the number of experts read per layer in addition to those of one token."""
        return experts_read(self.facts, tokens) - self.facts.num_experts_per_tok

    def never_from(self) -> int | None:
        """Return the smallest context from which on no decode batch is compute-bound, or None if there is none.

        Intensity decreases with the number of keys, so bisection applies.
        """
        return self._first(lambda keys: self.crossing(keys).batch is None)

    def prefill_crossing(self, batch: int = 1) -> int | None:
        """Return the smallest prompt length at which prefill of `batch` prompts is compute-bound, or None.

        Experts are chosen evenly. Intensity increases with the prompt length, so bisection applies.
        """

        def crosses(tokens: int) -> bool:
            step = self.prefill(batch, tokens)
            minimum = step.evenly or step.seconds
            return step.bound == "compute" and minimum.value <= step.work.flops / self.roof.flops_per_second

        return self._first(crosses)

    def _first(self, holds: Callable[[int], bool]) -> int | None:
        """Return the smallest length up to `max_position` for which the monotonic `holds` is true, or None."""
        low, high = 0, self.facts.max_position
        if not holds(high):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        return high

    def _step(self, batch: int, tokens: int, context: int, entries: list[BatchEntry]) -> StepTime:
        work = self._work.of(entries)
        flops, moved = Factor("F", work.flops, "flops"), Factor("M", bytes_moved(work), "bytes_moved")
        seconds = derive("step_seconds", "s", "max(F / P, M / W)", flops, moved, *self.roof.factors())
        assert seconds.value == least_seconds(work, self.roof.flops_per_second, self.roof.bytes_per_second)
        intensity = derive("intensity", "FLOP/B", "F / M", flops, moved)
        bound: Bound = "compute" if intensity.value > self.roof.ridge.value else "bandwidth"
        experts, evenly = self._chosen_evenly(batch * tokens, flops, moved)
        return StepTime(
            batch=batch, tokens=tokens, context=context, work=work, intensity=intensity, seconds=seconds, bound=bound,
            experts=experts, evenly=evenly,
        )  # fmt: skip

    def _chosen_evenly(self, tokens: int, flops: Factor, moved: Factor) -> tuple[Derived | None, Derived | None]:
        if not self._expert_bytes:
            return None, None
        k = Factor("k", self.facts.num_experts_per_tok, "experts_of_a_token")
        experts = derive(
            "experts_read", "1", "E · (1 − exp(T · ln(1 − k / E)))",
            Factor("E", self.facts.num_experts, "experts"), k, Factor("T", tokens, "tokens_of_the_step"),
        )  # fmt: skip
        evenly = derive(
            "evenly_seconds", "s", "max(F / P, (M + (e − k) · x) / W)", flops, moved, *self.roof.factors(),
            experts.as_factor("e"), k, Factor("x", self._expert_bytes, "bytes_of_an_expert"),
        )  # fmt: skip
        return experts, evenly


def _entry(start: int, tokens: int) -> BatchEntry:
    return BatchEntry(
        seq_id=0,
        phase="prefill" if start == 0 and tokens > 1 else "decode",
        start=start,
        token_ids=[0] * tokens,
        context_len=start + tokens,
        samples=True,
    )


def _at_least_one(number: int, noun: str) -> None:
    if number < 1:
        raise ValueError(f"a step has at least one {noun}, not {number}")
