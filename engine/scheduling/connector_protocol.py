"""Interface of a connector for the scheduler, with vLLM's names; implementations are in `engine.connector`."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from engine.scheduling.cache_protocol import Cache, Match
from engine.scheduling.sequence import Sequence
from engine.trace.operations import FinishReason, LookupExternal


class Connector(Protocol):
    """Source of keys and values outside the pool. None of these methods modifies a block."""

    def get_num_new_matched_tokens(self, request: Sequence, num_computed_tokens: int) -> tuple[int | None, bool]:
        """Return the number of external tokens after `num_computed_tokens`, a multiple of the block size, and whether
        they arrive after this step, in which case the request waits. A number of None is not known yet; the next step
        repeats the lookup.
        """

    def matched(self, request: Sequence) -> tuple[Any, LookupExternal | None]:
        """Return the result of this request's last lookup: the `loading` argument of `Cache.allocate` (None: nothing is
        loaded) and its trace operation (None: there was no lookup).
        """

    def update_state_after_alloc(
        self, request: Sequence, block_tables: list[list[int]], num_external_tokens: int
    ) -> None:
        """Pass the block tables of an admitted request, one per group, including the blocks of external tokens."""

    def request_finished(self, request: Sequence, block_tables: list[list[int]], reason: FinishReason) -> float | None:
        """Return the lease in seconds of a finished request's blocks, or None to free the blocks at once."""


class External(NamedTuple):
    """External content of a waiting sequence, after its prefix cache hits."""

    match: Match  # hits in the pool, which precede the external tokens
    num_tokens: int  # number of tokens to load
    loading: Any
    operation: LookupExternal | None
    is_later: bool = False  # whether it arrives after this step

    @property
    def end(self) -> int:
        """Number of leading tokens that need no computation."""
        return self.match.num_tokens + self.num_tokens


def look_up_external(connector: Connector | None, cache: Cache, sequence: Sequence, match: Match) -> External:
    """Look up the sequence's content after `match` in the connector, if there is one."""
    if connector is None or match.verdict == "skipped":
        return External(match, 0, None, None)
    count, is_later = connector.get_num_new_matched_tokens(sequence, match.num_tokens)
    loading, operation = connector.matched(sequence)
    if not count:
        return External(match, 0, None, operation)
    return External(cache.drop_unseen(match, loading), count, loading, operation, is_later)
