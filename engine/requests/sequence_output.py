"""Output of a sequence: its text, stop conditions and seed."""

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
    """Output of a sequence of a request. `finish_reason` is None until the sequence is done."""

    def __init__(self, sequence: Sequence, sampling: SamplingParams, tokenizer: Tokenizer | None, seed: int) -> None:
        self.sequence = sequence
        self.seed = seed
        self.generator = make_generator(seed)
        self.text = ""
        self.cumulative_logprob = 0.0  # under the raw distribution
        self.score: float | None = None  # for the ranking of several finished sequences
        self.finish_reason: FinishReason | None = None
        self.chosen: dict[int, int] = {}  # tokens that replace sampled ones, by position
        self.beam: Beam | None = None  # state in the beam search, if there is one
        self.alternatives: Sampled | None = None  # alternatives of a beam that waits for other beams
        self._tokenizer = tokenizer
        self._detokenizer = IncrementalDetokenizer()
        self._held_text = ""  # text that is not returned yet, since it may be the beginning of a stop string
        self._is_held_text_searched = False  # whether the current stop strings were searched in it
        self._set_sampling(sampling)

    @property
    def output_token_ids(self) -> list[int]:
        """Generated tokens."""
        return self.sequence.token_ids[self.sequence.num_prompt_tokens :]

    @property
    def num_output_tokens(self) -> int:
        return len(self.sequence.token_ids) - self.sequence.num_prompt_tokens

    @property
    def end_ids(self) -> frozenset[int]:
        """Tokens that end the sequence."""
        return self._end_ids

    def row(self) -> SamplingRow:
        """Return the sampling row of the next token."""
        min_tokens = self.sampling.min_tokens
        return self._row_before_min_tokens if min_tokens and self.num_output_tokens < min_tokens else self._row

    def adjust(self, sampling: SamplingParams, max_tokens: int, seed: int | None) -> None:
        """Sample the next tokens with other parameters, and from a new generator if a seed is given."""
        self.sequence.max_tokens = max_tokens
        if seed is not None:
            self.seed, self.generator = seed, make_generator(seed)
        self._set_sampling(sampling)

    def fork(self, sequence: Sequence, seed: int) -> SequenceOutput:
        """Return a copy for another sequence with the same tokens and separate random draws."""
        child = SequenceOutput(sequence, self.sampling, self._tokenizer, seed)
        child.text, child.cumulative_logprob = self.text, self.cumulative_logprob
        child._detokenizer = copy.deepcopy(self._detokenizer)
        child._held_text, child._stops = self._held_text, self._stops.copy()
        return child

    def accept(self, token_id: int, logprob: float) -> tuple[str, Stop | None]:
        """Process a token that was just appended to the sequence.

        Returns:
            The text to return now, without stop strings and incomplete characters, and the reason if the sequence
            ends.
        """
        self.cumulative_logprob += logprob
        sequence, strings = self.sequence, self.sampling.stop
        text, self._held_text = self._held_text, ""
        num_searched = len(text) if self._is_held_text_searched else 0
        stop: Stop | None = None
        if token_id in self._end_ids:
            stop = Stop("stop", "end of sequence" if token_id in self._eos_ids() else f"token {token_id}")
            text += self._detokenizer.finish()
        else:
            if self._tokenizer is not None:
                text += self._detokenizer.feed(self._tokenizer.text_bytes(token_id))
            num_output_tokens = len(sequence.token_ids) - sequence.num_prompt_tokens
            found = self._stops.feed(text[num_searched:]) if strings else None
            self._is_held_text_searched = True
            if found and num_output_tokens >= self.sampling.min_tokens:
                at, string = found
                text, stop = text[: num_searched + at], Stop("stop", string)
            elif num_output_tokens >= sequence.max_tokens:
                stop = Stop("length", f"max_tokens {sequence.max_tokens}")
                text += self._detokenizer.finish()
            elif strings:
                end = len(text) - self._stops.pending
                text, self._held_text = text[:end], text[end:]
        self.text += text
        return text, stop

    def _set_sampling(self, sampling: SamplingParams) -> None:
        """Set the parameters, and the state that is derived from them once."""
        self.sampling = sampling
        self._stops = StopStrings(sampling.stop)
        self._is_held_text_searched = False
        self._end_ids = frozenset(sampling.stop_token_ids) | self._eos_ids()
        self._row = SamplingRow(sampling, self.generator, self.sequence.token_ids)
        self._row_before_min_tokens = SamplingRow(sampling, self.generator, self.sequence.token_ids, self._end_ids)

    def _eos_ids(self) -> frozenset[int]:
        if self._tokenizer is None or self.sampling.ignore_eos:
            return frozenset()
        return frozenset(self._tokenizer.eos_token_ids)
