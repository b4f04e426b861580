"""Inputs and results of a simulated run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from engine.trace.request_account import TokenTimes


class Wanted(Protocol):
    """A request that will come; `engine.bench.workload.Ask` is one."""

    @property
    def prompt(self) -> list[int]: ...  # after another request: only the new tokens, unless it `is_whole`
    @property
    def output_tokens(self) -> int: ...
    @property
    def at(self) -> float: ...  # seconds after the start
    @property
    def after(self) -> int | None: ...  # index of the turn before, which must be done
    @property
    def think(self) -> float: ...  # seconds between its end and this request
    @property
    def is_whole(self) -> bool: ...  # the prompt holds what was said before


class SimulatedRequest(NamedTuple):
    """A `Wanted` as plain values."""

    prompt: list[int]
    output_tokens: int
    at: float = 0.0
    after: int | None = None
    think: float = 0.0
    is_whole: bool = False


class LinkSpeed(NamedTuple):
    """Link speed between nodes; each sends one transfer at a time, and receives one at a time."""

    bytes_per_second: float
    latency: float = 0.0  # seconds, of each transfer
    name: str = "simulated"


@dataclass(slots=True)
class ServedRequest(TokenTimes):
    """Outcome of a request. Times are seconds after the start; a rejected request has no tokens."""

    prefilled: float | None = None  # when its prompt was computed by an instance that left the rest to another
    token_ids: list[int] = field(default_factory=list)
    prompt: list[int] = field(default_factory=list)  # whole, with the turns before


@dataclass(slots=True)
class Outcome:
    """A simulated run."""

    seconds: float
    requests: list[ServedRequest]
    num_steps: int
    busy_seconds: list[float]  # of each instance
    moved_bytes: int
    num_preemptions: int
    num_asked_tokens: int  # of prompts that were looked up in the prefix cache, each once
    num_hit_tokens: int
