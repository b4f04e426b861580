"""Output of a sequence: its growing text, stop conditions, and seed."""

from __future__ import annotations

import copy
from typing import NamedTuple

from engine.config import SamplingParams
from engine.model.detokenizer import IncrementalDetokenizer
from engine.model.sampling import Sampled, SamplingRow, make_generator
from engine.model.tokenizer import Tokenizer
from engine.requests.beam_search import Beam
from engine.requests.stop_strings import StopStrings
from engine.scheduling.sequence import Sequence
from engine.trace.operations import FinishReason


class Stop(NamedTuple):
    """Reason for the end of a sequence."""

    reason: FinishReason
    detail: str


class SequenceOutput:
    """Output of a sequence of a request. `finish_reason` is None until it is done."""

    def __init__(self, sequence: Sequence, sampling: SamplingParams, tokenizer: Tokenizer | None, seed: int) -> None:
        self.sequence = sequence
        self.seed = seed
        self.generator = make_generator(seed)
        self.text = ""
        self.cumulative_logprob = 0.0  # raw distribution
        self.score: float | None = None  # for ranking, if it has ended and is one of several
        self.finish_reason: FinishReason | None = None
        self.chosen: dict[int, int] = {}  # position -> token forced from outside
        self.beam: Beam | None = None  # its state in the beam search, if there is one
        self.alternatives: Sampled | None = None  # of a beam with offers that waits for other beams
        self._tokenizer = tokenizer
        self._detokenizer = IncrementalDetokenizer()
        self._held_back = ""  # complete text that may be the beginning of a stop string
        self._has_searched = False  # `_held_back`, for the current stop strings
        self._adopt(sampling)

    @property
    def output_token_ids(self) -> list[int]:
        """Output tokens."""
        return self.sequence.token_ids[self.sequence.num_prompt_tokens :]

    @property
    def num_output_tokens(self) -> int:
        return len(self.sequence.token_ids) - self.sequence.num_prompt_tokens

    @property
    def end_ids(self) -> frozenset[int]:
        """Tokens that end the sequence."""
        return self._end_ids

    def row(self) -> SamplingRow:
        """Return the sampling row of its next token."""
        min_tokens = self.sampling.min_tokens
        return self._row_before_min_tokens if min_tokens and self.num_output_tokens < min_tokens else self._row

    def adjust(self, sampling: SamplingParams, max_tokens: int, seed: int | None) -> None:
        """Sample the next tokens with other parameters, and from a new generator if a seed is given."""
        self.sequence.max_tokens = max_tokens
        if seed is not None:
            self.seed, self.generator = seed, make_generator(seed)
        self._adopt(sampling)

    def fork(self, sequence: Sequence, seed: int) -> SequenceOutput:
        """Return a copy for another sequence: the same tokens so far, then separate random draws."""
        child = SequenceOutput(sequence, self.sampling, self._tokenizer, seed)
        child.text, child.cumulative_logprob = self.text, self.cumulative_logprob
        child._detokenizer = copy.deepcopy(self._detokenizer)
        child._held_back, child._stops = self._held_back, self._stops.copy()
        return child

    def accept(self, token_id: int, logprob: float) -> tuple[str, Stop | None]:
        """Process a token that was just appended to the sequence.

        Returns:
            The text that may be shown now (no part of a stop string, no incomplete character), and the reason if
            the sequence ends.
        """
        self.cumulative_logprob += logprob
        sequence, strings = self.sequence, self.sampling.stop
        shown, self._held_back = self._held_back, ""
        num_searched = len(shown) if self._has_searched else 0
        stop: Stop | None = None
        if token_id in self._end_ids:
            stop = Stop("stop", "end of sequence" if token_id in self._eos_ids() else f"token {token_id}")
            shown += self._detokenizer.finish()
        else:
            if self._tokenizer is not None:
                shown += self._detokenizer.feed(self._tokenizer.text_bytes(token_id))
            num_output_tokens = len(sequence.token_ids) - sequence.num_prompt_tokens
            found = self._stops.feed(shown[num_searched:]) if strings else None
            self._has_searched = True
            if found and num_output_tokens >= self.sampling.min_tokens:
                at, string = found
                shown, stop = shown[: num_searched + at], Stop("stop", string)
            elif num_output_tokens >= sequence.max_tokens:
                stop = Stop("length", f"max_tokens {sequence.max_tokens}")
                shown += self._detokenizer.finish()
            elif strings:
                known = len(shown) - self._stops.pending
                shown, self._held_back = shown[:known], shown[known:]
        self.text += shown
        return shown, stop

    def _adopt(self, sampling: SamplingParams) -> None:
        """Derive state from the parameters once, not for every token."""
        self.sampling = sampling
        self._stops = StopStrings(sampling.stop)
        self._has_searched = False
        self._end_ids = frozenset(sampling.stop_token_ids) | self._eos_ids()
        self._row = SamplingRow(sampling, self.generator, self.sequence.token_ids)
        self._row_before_min_tokens = SamplingRow(sampling, self.generator, self.sequence.token_ids, self._end_ids)

    def _eos_ids(self) -> frozenset[int]:
        if self._tokenizer is None or self.sampling.ignore_eos:
            return frozenset()
        return frozenset(self._tokenizer.eos_token_ids)
