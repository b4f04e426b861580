"""Draft tokens of a step: scheduling, allocation and verification.

    schedule   the batch is scheduled first; drafts use the remaining budget and free blocks, so that they never defer
               or preempt a sequence
    write      keys and values of the drafts are written together with those of the last token
    verify     accepted drafts become the sequence's next tokens; the others are discarded, with their blocks

A sequence's `token_ids` never contain drafts. Hashes are computed from `token_ids`, so no draft enters the prefix
cache. Drafts exist only during their step.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items
from typing import NamedTuple, Protocol

from engine.scheduling.cache_protocol import Cache
from engine.scheduling.sequence import Sequence
from engine.scheduling.step import ScheduledSequence, Step, phase_of
from engine.trace.operations import Draft, DraftMethod, Op, Verify


class Proposal(NamedTuple):
    """Draft tokens of a sequence, and their origin."""

    token_ids: list[int]
    match_start: int | None = None  # position of an n-gram's earlier occurrence
    match_length: int = 0  # length of that n-gram
    num_computed_tokens: int = 0  # number of tokens that a draft model computed for this proposal
    num_bytes: int = 0  # size of the draft model's keys and values of the sequence


NO_DRAFTS = Proposal([])


class Drafter(Protocol):
    """Source of draft tokens."""

    @property
    def method(self) -> DraftMethod: ...

    def propose(self, wanted: Items[tuple[Sequence, int]]) -> list[Proposal]:
        """Return draft tokens for each sequence, at most the number that `wanted` gives, which is at least one."""

    def close(self) -> None: ...


class Speculation:
    """Speculation of a scheduler. `token_bytes` is only used for the trace."""

    def __init__(
        self,
        drafter: Drafter,
        num_tokens: int,
        cache: Cache,
        token_bytes: Callable[[int], bytes],
        emit: Callable[[Op], None],
    ) -> None:
        self._drafter = drafter
        self._num_tokens = num_tokens
        self._cache = cache
        self._token_bytes = token_bytes
        self._emit = emit

    def extend(self, step: Step) -> None:
        """Add drafts to the decoding sequences of a step, within its budget and the free blocks."""
        if step.preempted:
            return  # there are no spare blocks
        wanted = [(item.sequence, most) for item in step.batch.values() if (most := self._max_drafts(item, step)) > 0]
        if not wanted:
            return
        for (sequence, most), proposal in zip(wanted, self._drafter.propose(wanted), strict=True):
            end = sequence.num_tokens
            drafts = proposal.token_ids[: max(0, min(most, step.budget))]
            while drafts and not self._cache.allocate(sequence.seq_id, end + len(drafts), "draft"):
                drafts.pop()
            if not drafts:
                continue
            sequence.draft_token_ids = drafts
            step.batch[sequence.seq_id] = ScheduledSequence(sequence, end - 1, 1 + len(drafts))
            step.budget -= len(drafts)
            self._emit(
                Draft(
                    seq_id=sequence.seq_id,
                    token_ids=list(drafts),
                    token_bytes=[self._token_bytes(token_id) for token_id in drafts],
                    method=self._drafter.method,
                    match_start=proposal.match_start,
                    match_length=proposal.match_length,
                    num_computed_tokens=proposal.num_computed_tokens,
                    num_bytes=proposal.num_bytes,
                )
            )

    def settle(self, sequence: Sequence) -> None:
        """Record the number of accepted drafts, and discard the rejected ones."""
        drafts, accepted = sequence.draft_token_ids, sequence.num_accepted_drafts
        self._emit(Verify(seq_id=sequence.seq_id, num_drafted=len(drafts), num_accepted=accepted))
        self.discard_drafts(sequence)
        self._cache.release([sequence.seq_id])

    def discard_drafts(self, sequence: Sequence) -> None:
        """Discard the K and V of drafts that were not accepted, and free their blocks."""
        sequence.draft_token_ids, sequence.num_accepted_drafts = [], 0
        self._cache.truncate(sequence.seq_id, sequence.num_computed_tokens)

    def close(self) -> None:
        """Close the drafter."""
        self._drafter.close()

    def _max_drafts(self, item: ScheduledSequence, step: Step) -> int:
        """Return the maximum number of drafts of a scheduled sequence. The step samples one token more."""
        sequence, start, num_tokens = item
        if start + num_tokens < sequence.num_tokens or phase_of(sequence, start, num_tokens) != "decode":
            return 0
        num_outputs = sequence.num_tokens - sequence.num_prompt_tokens
        return min(self._num_tokens, step.budget, sequence.max_tokens - num_outputs - 1)
