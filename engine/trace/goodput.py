"""Goodput: requests per second that meet their service level objectives (DistServe, https://arxiv.org/abs/2401.09670).

`static/js/core/goodput.js` has the same figures; a test holds both to the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from engine.trace.applications import TABLE


class SLO(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request counts towards goodput if it meets both. Seconds."""

    ttft: float
    tpot: float

    def is_met(self, ttft: float | None, tpot: float | None) -> bool:
        """Return whether a request met it; one token alone has no TPOT to miss."""
        return ttft is not None and ttft <= self.ttft and (tpot is None or tpot <= self.tpot)


# Objectives of applications by name: for OPT-13B (chat) and OPT-66B (others).
APPLICATIONS = {row.name: SLO(ttft=row.ttft, tpot=row.tpot) for row in TABLE if row.name}


class Output(Struct, frozen=True, kw_only=True):
    """Outcome of a sequence as goodput needs it. Times are engine seconds."""

    request_id: str
    is_finished: bool  # by itself or by length; not aborted
    ttft: float | None
    tpot: float | None


class Goodput(Struct, frozen=True, kw_only=True):
    """Goodput of a run."""

    slo: SLO
    ended: int  # requests all of whose sequences have finished
    met: int  # of these, requests all of whose sequences met the objective
    seconds: float  # engine time: pauses between steps do not count

    @property
    def per_second(self) -> float | None:
        """Requests per second that met the objective; None before the first step."""
        return self.met / self.seconds if self.seconds else None


def goodput(outputs: Iterable[Output], seconds: float, slo: SLO) -> Goodput:
    """Count the requests of a run; a request meets the objective if its slowest sequence does."""
    requests: dict[str, list[Output]] = {}
    for output in outputs:
        requests.setdefault(output.request_id, []).append(output)
    ended = [members for members in requests.values() if all(one.is_finished for one in members)]
    met = sum(all(slo.is_met(one.ttft, one.tpot) for one in members) for members in ended)
    return Goodput(slo=slo, ended=len(ended), met=met, seconds=seconds)


def slo_of(text: str) -> SLO:
    """Parse an application's name, or both objectives in milliseconds: `ttft:250,tpot:100`.

    Raises:
        ValueError: neither; one sentence.
    """
    if found := APPLICATIONS.get(text):
        return found
    names = ", ".join(APPLICATIONS)
    wrong = f"{text!r} is no objective: one of {names}, or milliseconds as in ttft:250,tpot:100"
    parts = dict(part.partition(":")[::2] for part in text.split(","))
    if set(parts) != {"ttft", "tpot"}:
        raise ValueError(wrong)
    try:
        ttft, tpot = (float(parts[name]) / 1000 for name in ("ttft", "tpot"))
    except ValueError:
        raise ValueError(wrong) from None
    if not (0 < ttft < float("inf") and 0 < tpot < float("inf")):
        raise ValueError(wrong)
    return SLO(ttft=ttft, tpot=tpot)
