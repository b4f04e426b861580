"""What is kept of a request until it ends: when its tokens came, by the clock of its trace."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from engine.trace.events import Medium, Setting


@dataclass(slots=True)
class Preempted:
    """One preemption."""

    at: float
    reason: str
    mode: str


@dataclass(slots=True)
class RequestTimes:
    """A request: all its sequences, on all instances. Seconds since its trace began; None: it did not come to that."""

    request_id: str
    model_name: str
    arrival: float  # at the server; before `queued` where it waited among its client's other requests
    queued: float
    num_prompt_tokens: int
    max_tokens: int
    sampling: dict[str, Setting]
    scheduled: float | None = None
    prefilled: float | None = None  # its prompt was computed, on the instance that does only that
    first_token: float | None = None
    last_token: float | None = None
    ended: float | None = None
    num_cached_tokens: int = 0  # in the pool or outside it
    num_external_tokens: int = 0  # of these: outside it
    num_output_tokens: int = 0  # of all sequences
    num_sequences: int = 1
    num_alive: int = 1
    longest_output: int = 0  # of those that finished
    reasons: list[str] = field(default_factory=list)  # how the sequences finished
    preemptions: list[Preempted] = field(default_factory=list)

    @property
    def n(self) -> int:
        """How many outputs were asked for."""
        n = self.sampling.get("n")
        return n if isinstance(n, int) else 1


@dataclass(slots=True)
class SequenceTimes:
    """One sequence. A fork begins as a copy of its parent."""

    request: RequestTimes
    runs: bool = False  # False: it waits
    scheduled: float | None = None
    first_token: float | None = None
    last_token: float | None = None
    num_output_tokens: int = 0
    num_computed_tokens: int = 0  # of its prompt: what was not cached; a fork has computed none
    num_missing_tokens: int = 0  # that the pool had not, at its last lookup
    found_outside: Counter[Medium] = field(default_factory=Counter)  # blocks by tier, at its last lookup there
    num_preemptions: int = 0
