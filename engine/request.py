"""A request as the engine sees it: what was asked, what came out so far, and when to stop."""

from __future__ import annotations

from typing import NamedTuple

from engine.config import SamplingParams
from engine.model.detokenizer import IncrementalDetokenizer
from engine.model.sampling import make_generator
from engine.model.tokenizer import Tokenizer
from engine.scheduling.sequence import Sequence
from engine.trace.events import FinishReason


class Stop(NamedTuple):
    """Why a sequence ends."""

    reason: FinishReason
    detail: str


class Request:
    """One prompt and its output. Grows with every step; `finish_reason` is None until it is done."""

    def __init__(
        self,
        sequence: Sequence,
        sampling: SamplingParams,
        max_tokens: int,
        tokenizer: Tokenizer | None,
        engine_seed: int,
    ) -> None:
        self.sequence = sequence
        self.sampling = sampling
        self.max_tokens = max_tokens
        self.text = ""
        self.finish_reason: FinishReason | None = None
        # Without a seed of its own, one that depends on nothing but the engine's seed and the sequence's number.
        self.generator = make_generator(
            sampling.seed if sampling.seed is not None else (engine_seed << 32) + sequence.seq_id
        )
        self._tokenizer = tokenizer
        self._detokenizer = IncrementalDetokenizer()
        self._held_back = ""  # complete text that may turn out to be the beginning of a stop string

    @property
    def request_id(self) -> str:
        return self.sequence.request_id

    @property
    def seq_id(self) -> int:
        return self.sequence.seq_id

    @property
    def num_prompt_tokens(self) -> int:
        return self.sequence.num_prompt_tokens

    @property
    def output_token_ids(self) -> list[int]:
        """The tokens chosen so far."""
        return self.sequence.token_ids[self.sequence.num_prompt_tokens :]

    def accept(self, token_id: int) -> tuple[str, Stop | None]:
        """Take note of a token that was just appended to the sequence.

        Returns:
            The text that may be shown now (never a part of a stop string, never half a character), and why the
            sequence ends, if it does.
        """
        stop: Stop | None = None
        if self._ends_text(token_id):
            stop = Stop("stop", "end of sequence")
        elif token_id in self.sampling.stop_token_ids:
            stop = Stop("stop", f"token {token_id}")
        pending = self._held_back
        if stop is None:
            pending += self._detokenizer.feed(self._text_bytes(token_id))
            found = [(at, s) for s in self.sampling.stop if (at := pending.find(s)) >= 0]
            if found:
                at, string = min(found)
                pending, stop = pending[:at], Stop("stop", string)
            elif len(self.sequence.token_ids) - self.num_prompt_tokens >= self.max_tokens:
                stop = Stop("length", f"max_tokens {self.max_tokens}")
                pending += self._detokenizer.finish()
        keep = 0 if stop else self._beginning_of_stop(pending)
        shown, self._held_back = pending[: len(pending) - keep], pending[len(pending) - keep :]
        self.text += shown
        return shown, stop

    def _ends_text(self, token_id: int) -> bool:
        if self._tokenizer is None or self.sampling.ignore_eos:
            return False
        return token_id in self._tokenizer.eos_token_ids

    def _text_bytes(self, token_id: int) -> bytes:
        """What the token adds to the text: nothing if it is a control token."""
        if self._tokenizer is None or self._tokenizer.is_special(token_id):
            return b""
        return self._tokenizer.token_bytes(token_id)

    def _beginning_of_stop(self, text: str) -> int:
        """Length of the longest end of `text` that is the beginning of a stop string."""
        return max((n for s in self.sampling.stop for n in range(1, len(s)) if text.endswith(s[:n])), default=0)
