"""Prompt lookup: proposes the tokens that followed an earlier occurrence of the last tokens. Needs no model."""

from __future__ import annotations

from array import array
from collections.abc import Sequence as Items

from engine.scheduling.sequence import Sequence
from engine.scheduling.speculation import NO_DRAFTS, Proposal
from engine.trace.operations import DraftMethod


class NgramDrafter:
    """Drafter that finds the first earlier occurrence of the longest repeated suffix of a sequence, as vLLM does.

    Saxena 2023, https://github.com/apoorvumang/prompt-lookup-decoding
    """

    method: DraftMethod = "ngram"

    def __init__(self, shortest: int, longest: int) -> None:
        self._shortest, self._longest = shortest, longest

    def propose(self, wanted: Items[tuple[Sequence, int]]) -> list[Proposal]:
        """Implement `Drafter.propose`."""
        return [self._proposal(sequence.token_ids, max_drafts) for sequence, max_drafts in wanted]

    def close(self) -> None:
        """No-op."""

    def _proposal(self, token_ids: list[int], max_drafts: int) -> Proposal:
        text = array("q", token_ids).tobytes()
        for length in range(min(self._longest, len(token_ids) - 1), self._shortest - 1, -1):
            start = _find(text, length)
            if start is not None:
                end = start + length
                return Proposal(token_ids[end : end + max_drafts], match_start=start, match_length=length)
        return NO_DRAFTS


def _find(text: bytes, length: int) -> int | None:
    """Return the first earlier position of the last `length` tokens, encoded in 8 bytes each."""
    suffix, at = text[-8 * length :], -1
    while (at := text.find(suffix, at + 1, -8)) >= 0:
        if at % 8 == 0:
            return at // 8
    return None
