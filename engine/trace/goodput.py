"""Goodput: requests per second that meet their service level objectives (DistServe, https://arxiv.org/abs/2401.09670).

`static/js/core/goodput.js` computes the same figures; a test compares both.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from engine.trace.applications import TABLE


class SLO(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Service level objectives of a request, in seconds. It counts towards goodput if it meets both."""

    ttft: float
    tpot: float

    def is_met(self, ttft: float | None, tpot: float | None) -> bool:
        """Return whether a sequence met both objectives. A sequence with one token has no TPOT and cannot miss it."""
        return ttft is not None and ttft <= self.ttft and (tpot is None or tpot <= self.tpot)


# Application name -> objectives of OPT-13B (chat) or OPT-66B (the other applications).
APPLICATIONS = {row.name: SLO(ttft=row.ttft, tpot=row.tpot) for row in TABLE if row.name}


class Output(Struct, frozen=True, kw_only=True):
    """Outcome of a sequence, for `goodput`. Times are in engine seconds."""

    request_id: str
    is_finished: bool  # stopped or reached its maximum length; not aborted
    ttft: float | None
    tpot: float | None


class Goodput(Struct, frozen=True, kw_only=True):
    """Goodput of a run."""

    slo: SLO
    ended: int  # requests whose sequences have all finished
    met: int  # requests whose sequences have all finished and met the objectives
    seconds: float  # engine time, without pauses between steps

    @property
    def per_second(self) -> float | None:
        """Requests per second that met the objectives; None before the first step."""
        return self.met / self.seconds if self.seconds else None


def goodput(outputs: Iterable[Output], seconds: float, slo: SLO) -> Goodput:
    """Count the requests of a run. A request meets the objectives if its slowest sequence does."""
    requests: dict[str, list[Output]] = {}
    for output in outputs:
        requests.setdefault(output.request_id, []).append(output)
    ended = [members for members in requests.values() if all(one.is_finished for one in members)]
    met = sum(all(slo.is_met(one.ttft, one.tpot) for one in members) for members in ended)
    return Goodput(slo=slo, ended=len(ended), met=met, seconds=seconds)


def slo_of(text: str) -> SLO:
    """Parse an application's name, or both objectives in milliseconds: `ttft:250,tpot:100`.

    Raises:
        ValueError: the text is neither. The message is one sentence.
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
