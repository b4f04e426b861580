"""Request in the engine: its parameters and its sequences."""

from __future__ import annotations

from engine.config import SamplingParams
from engine.model.sampling import sample_seed
from engine.model.tokenizer import Tokenizer
from engine.requests.beam_search import Beam, BeamSearch
from engine.requests.sequence_output import SequenceOutput
from engine.scheduling.sequence import Sequence
from engine.trace.operations import FinishReason


class Request:
    """Prompt and its outputs. Most requests have one sequence; samples and beams are forked from the first.

    `completions` has all sequences so far, in order of creation. `outputs` has those to return.
    """

    def __init__(self, sequence: Sequence, sampling: SamplingParams, tokenizer: Tokenizer | None, seed: int) -> None:
        """`seed`: seed of the first sample, from which those of the others are derived."""
        self.sampling = sampling
        self.seed = seed
        self.completions = [SequenceOutput(sequence, sampling, tokenizer, seed)]
        self.outputs = self.completions[:1]  # best first; final when the request is done
        self.num_unfinished = 1
        # number of prompt tokens that are not scored yet
        self.num_prompt_logprobs = 0 if sampling.prompt_logprobs is None else sequence.num_prompt_tokens - 1
        self.beams: BeamSearch | None = None
        if sampling.use_beam_search:
            ends = self.completions[0].end_ids
            self.beams = BeamSearch(sampling.beam_width, sampling.length_penalty, sequence.max_tokens, ends)
            self.completions[0].beam = Beam()

    @property
    def request_id(self) -> str:
        return self.sequence.request_id

    @property
    def sequence(self) -> Sequence:
        """Sequence that computed the prompt."""
        return self.completions[0].sequence

    @property
    def seq_id(self) -> int:
        return self.sequence.seq_id

    @property
    def num_prompt_tokens(self) -> int:
        return self.sequence.num_prompt_tokens

    @property
    def output_token_ids(self) -> list[int]:
        """Tokens of the first output while the request runs, of the best one when it is done."""
        return self.outputs[0].output_token_ids

    @property
    def text(self) -> str:
        """Text of the first output while the request runs, of the best one when it is done."""
        return self.outputs[0].text

    @property
    def finish_reason(self) -> FinishReason | None:
        """Finish reason of the best output; None until every sequence is finished."""
        return None if self.num_unfinished else self.outputs[0].finish_reason

    @property
    def unfinished(self) -> list[SequenceOutput]:
        """Completions with a waiting or running sequence."""
        return [c for c in self.completions if c.finish_reason is None]

    def fork(self, parent: SequenceOutput, sequence: Sequence, seed: int) -> SequenceOutput:
        """Fork another sequence from the state of `parent`."""
        child = parent.fork(sequence, seed)
        self.completions.append(child)
        self.num_unfinished += 1
        return child

    def next_seed(self) -> int:
        """Return the seed of the next forked sample."""
        return sample_seed(self.seed, len(self.completions))

    def adjust(self, sampling: SamplingParams, max_tokens: int) -> None:
        """Sample the remaining tokens with these parameters. A new seed restarts the random draws."""
        reseeded = sampling.seed is not None and sampling.seed != self.sampling.seed
        self.sampling = sampling
        if reseeded:
            assert sampling.seed is not None
            self.seed = sampling.seed
        for index, completion in enumerate(self.completions):
            if completion.finish_reason is None:
                completion.adjust(sampling, max_tokens, sample_seed(self.seed, index) if reseeded else None)

    def finish(self, completion: SequenceOutput, reason: FinishReason) -> bool:
        """Finish a sequence. Returns whether all sequences are done, in which case `outputs` is final."""
        completion.finish_reason = reason
        self.num_unfinished -= 1
        if self.num_unfinished:
            return False
        if len(self.completions) > 1:
            self.outputs = self.ranked()[: self.sampling.n] or self.completions[:1]
        return True

    def ranked(self) -> list[SequenceOutput]:
        """Return the sequences that ended by stop or length, best score first, ties in order of creation."""
        ended = [c for c in self.completions if c.finish_reason in ("stop", "length")]
        for completion in ended:
            if completion.score is None:
                completion.score = completion.cumulative_logprob
        return sorted(ended, key=lambda c: -(c.score or 0.0))
