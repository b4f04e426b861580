"""Requests of simulated runs."""

from typing import NamedTuple


class Ask(NamedTuple):
    """See `engine.simulate.outcome.Wanted`."""

    prompt: list[int]
    output_tokens: int
    at: float = 0.0
    after: int | None = None
    think: float = 0.0
    is_whole: bool = False
