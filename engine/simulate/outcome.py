"""Inputs and results of a simulated run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from engine.trace.request_account import TokenTimes


class Wanted(Protocol):
    """Request to simulate, for example `engine.bench.workload.WorkloadRequest`."""

    @property
    def prompt(self) -> list[int]: ...  # only the new tokens of a further turn, unless `is_whole`
    @property
    def output_tokens(self) -> int: ...
    @property
    def at(self) -> float: ...  # seconds after the start
    @property
    def after(self) -> int | None: ...  # index of the previous turn, which must end first
    @property
    def think(self) -> float: ...  # seconds from the end of the previous turn to this request
    @property
    def is_whole(self) -> bool: ...  # whether the prompt includes the previous turns


class SimulatedRequest(NamedTuple):
    """Plain implementation of `Wanted`."""

    prompt: list[int]
    output_tokens: int
    at: float = 0.0
    after: int | None = None
    think: float = 0.0
    is_whole: bool = False


class LinkSpeed(NamedTuple):
    """Speed of the links between nodes. A node sends one transfer at a time, and receives one at a time."""

    bytes_per_second: float
    latency: float = 0.0  # seconds per transfer
    name: str = "simulated"


@dataclass(slots=True)
class ServedRequest(TokenTimes):
    """Outcome of a request. Times are seconds after the start. A rejected request has no tokens."""

    prefilled: float | None = None  # end of prefill on a prefill instance
    token_ids: list[int] = field(default_factory=list)
    prompt: list[int] = field(default_factory=list)  # complete prompt, including previous turns


@dataclass(slots=True)
class Outcome:
    """Result of a simulated run."""

    seconds: float
    requests: list[ServedRequest]
    num_steps: int
    busy_seconds: list[float]  # by instance
    moved_bytes: int
    num_preemptions: int
    num_queried_tokens: int  # prompt tokens looked up in the prefix cache, once per prompt
    num_hit_tokens: int
