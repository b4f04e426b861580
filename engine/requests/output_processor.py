"""Processing of a step's logits: tokens, forks, beams, finished sequences, rankings.

There are four kinds of sequences that have computed their last token:

    ordinary       one row of logits, one token
    first of n     forked right after the prompt; every sample draws a token from the same row of logits
    beam           computes candidates; when all beams of its request have them, the best beams continue
    with drafts    a row of logits for each draft and one more: tokens are sampled sequentially while they equal the
                   drafts, whose keys are already computed

Sampling each position from the model's own distribution and stopping at the first token that is not the draft is
rejection sampling (Leviathan et al. 2023, arXiv 2211.17192; Chen et al. 2023, arXiv 2302.01318) for a proposal q that
gives all of its probability to one token d. They accept d with probability min(1, p(d) / q(d)) = p(d), the probability
that a sample of p equals d. Otherwise they draw from max(0, p - q) normalized, which is p without d, the distribution
of a sample of p that is not d. A sequence uses one draw per token, as without drafts. So with equal logits a seed gives
the same tokens, and penalties, biases, stop strings and log probabilities apply position by position.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor

from engine.config import EngineConfig
from engine.model.batch import SequenceSlice
from engine.model.loaded import LoadedModel
from engine.model.sampling import Sampled, Sampler
from engine.requests.beam_search import Beam, BeamCandidate, BeamStep
from engine.requests.request import Request
from engine.requests.sequence_output import SequenceOutput
from engine.scheduling.scheduler import Scheduler
from engine.setup.id_namespace import SINGLE, IdNamespace
from engine.trace.operations import FinishReason, ForkReason, Op, Rank
from engine.trace.records import Candidate, Output, PromptLogprob


class OutputProcessor:
    """Unfinished requests and their sequences. `emit` receives the ranking operations."""

    def __init__(
        self,
        model: LoadedModel,
        config: EngineConfig,
        scheduler: Scheduler,
        emit: Callable[[Op], None],
        place: IdNamespace = SINGLE,
    ) -> None:
        self.requests: dict[str, Request] = {}  # unfinished, by id, in order of submission
        self.live: dict[int, SequenceOutput] = {}  # waiting and running sequences by seq_id
        self.next_seq_id = place.first_seq_id
        self._stride = place.seq_id_stride
        tokenizer = model.tokenizer
        self.token_bytes: Callable[[int], bytes] = tokenizer.token_bytes if tokenizer else lambda token_id: b""
        self.detokenize_seconds = 0.0  # time for detokenizing in the last `process`
        self._num_logprobs = config.num_logprobs
        self._scheduler = scheduler
        self._emit = emit
        self.sampler = Sampler.on(model.device)
        self._searches: dict[str, Request] = {}  # requests with beams

    def add(self, request: Request) -> None:
        """Add an accepted request with a waiting sequence."""
        self.requests[request.request_id] = request
        self.live[request.seq_id] = request.completions[0]
        self.next_seq_id = request.seq_id + self._stride
        if request.beams is not None:
            self._searches[request.request_id] = request

    def wants_all_logits(self, seq_id: int, start: int) -> bool:
        """Return whether all logits from position `start` on are needed for log probabilities of the prompt."""
        request = self.request_of(self.live[seq_id])
        return request.num_prompt_logprobs > 0 and start < request.num_prompt_tokens - 1

    def _row_indices(self, rows: list[int]) -> Tensor:
        return self.sampler.copies.to_device(np.array(rows, np.int64))

    def request_of(self, completion: SequenceOutput) -> Request:
        """Return the unfinished request that a sequence belongs to."""
        return self.requests[completion.sequence.request_id]

    def process(self, slices: Sequence[SequenceSlice], logits: Tensor) -> tuple[list[Output], list[PromptLogprob]]:
        """Process a step's logits, which the runner returned for these slices."""
        self.detokenize_seconds = 0.0
        prompts: list[PromptLogprob] = []
        if any([piece.all_logits for piece in slices]):
            logits, prompts = self._score_prompts(slices, logits)
        sampling: list[SequenceOutput] = []
        rows: list[int] = []  # the row of logits of each
        end = 0
        for piece in [s for s in slices if s.samples]:
            completion, row, end = self.live[piece.seq_id], end, end + 1 + piece.num_drafts
            if completion.beam is not None:
                self._set_candidates(completion, completion.beam, logits[row : row + 1])
                continue
            sampling.append(completion)
            rows.append(row)
            if completion.sequence.num_forks:
                request = self.request_of(completion)
                samples = [self._fork(request, completion, "sample") for _ in range(completion.sequence.num_forks)]
                sampling += samples
                rows += [row] * len(samples)
        outputs: list[Output] = []
        while sampling:
            outputs += self._sample(sampling, rows, logits)
            # accepted drafts are already computed; the next row of logits is for the token after the draft
            remaining = [(c, row + 1) for c, row in zip(sampling, rows, strict=True) if c.sequence.draft_token_ids]
            sampling, rows = [c for c, _ in remaining], [row for _, row in remaining]
        for request in list(self._searches.values()):
            outputs += self._search(request)
        return outputs, prompts

    def _sample(self, completions: list[SequenceOutput], rows: list[int], logits: Tensor) -> list[Output]:
        """Sample a token for each sequence from its row of logits."""
        if rows != list(range(logits.shape[0])):
            logits = logits[self._row_indices(rows)]
        next_positions = enumerate((c, len(c.sequence.token_ids)) for c in completions)
        settled = {i: c.chosen.pop(position) for i, (c, position) in next_positions if position in c.chosen}
        num_alternatives = max([self._num_alternatives(c) for c in completions], default=0)
        sampled = self.sampler.sample(logits, [c.row() for c in completions], num_alternatives, settled)
        return [self._append(c, s) for c, s in zip(completions, sampled, strict=True)]

    def end(self, request: Request, reason: FinishReason, detail: str) -> None:
        """Finish all waiting and running sequences of a request."""
        for completion in request.unfinished:
            self._finish(request, completion, reason, detail)

    def _append(self, completion: SequenceOutput, sampled: Sampled) -> Output:
        """Append a token to its sequence, and finish the sequence if the token ends it."""
        sequence, token_id, logprob = completion.sequence, sampled.token_id, sampled.logprob
        self._scheduler.append_token(sequence, token_id, sampled.overruled)
        begin = time.perf_counter()
        text, stop = completion.accept(token_id, logprob)
        self.detokenize_seconds += time.perf_counter() - begin
        if sequence.draft_token_ids and (stop or not sequence.is_computed):
            self._scheduler.settle_drafts(sequence)
        if stop:
            self._finish(self.request_of(completion), completion, stop.reason, stop.detail)
        return Output(
            seq_id=sequence.seq_id,
            token_id=token_id,
            token_bytes=self.token_bytes(token_id),
            text=text,
            logprob=logprob,
            top=self._candidates(sampled, self._num_alternatives(completion)),
        )

    def _finish(self, request: Request, completion: SequenceOutput, reason: FinishReason, detail: str) -> None:
        self._scheduler.finish(completion.sequence, reason, detail)
        del self.live[completion.sequence.seq_id]
        if not request.finish(completion, reason):
            return
        del self.requests[request.request_id]
        self._searches.pop(request.request_id, None)
        ranked = request.ranked()
        if len(request.completions) > 1 and ranked:
            self._emit(
                Rank(
                    request_id=request.request_id,
                    seq_ids=[c.sequence.seq_id for c in ranked],
                    scores=[c.score or 0.0 for c in ranked],
                    num_returned=min(request.sampling.n, len(ranked)),
                )
            )

    # forks and beams

    def _fork(self, request: Request, parent: SequenceOutput, reason: ForkReason) -> SequenceOutput:
        seed = request.next_seed() if reason == "sample" else None
        sequence = self._scheduler.fork(parent.sequence, self.next_seq_id, request.request_id, reason, seed)
        self.next_seq_id += self._stride
        child = request.fork(parent, sequence, parent.seed if seed is None else seed)
        self.live[sequence.seq_id] = child
        return child

    def _set_candidates(self, completion: SequenceOutput, beam: Beam, logits: Tensor) -> None:
        """Store a beam's most probable next tokens, from its row of logits [1, V]."""
        search = self.request_of(completion).beams
        assert search is not None
        candidates = self.sampler.beam_candidates(logits[0], completion.row(), search.num_candidates)
        beam.candidates = [BeamCandidate(*candidate) for candidate in candidates]
        first_id = candidates[0][0]
        [completion.alternatives] = self.sampler.score(logits, [first_id], self._num_alternatives(completion))

    def _search(self, request: Request) -> list[Output]:
        """Advance a beam search once every beam has its candidates and its blocks."""
        search, running = request.beams, request.unfinished
        assert search is not None
        if not all(c.beam and c.beam.candidates and c.sequence.is_computed for c in running):
            return []
        choices = search.choose([c.beam for c in running if c.beam])
        tops = [c.alternatives for c in running]
        # 1) forks, before tokens are appended; one choice of each beam, a continuing one if possible, needs no fork
        in_place: dict[int, BeamStep] = {}
        for choice in sorted(choices, key=lambda c: c.score is not None):
            in_place.setdefault(choice.place, choice)
        targets = []
        for choice in choices:
            completion = running[choice.place]
            needs_fork = in_place[choice.place] is not choice
            targets.append(self._fork(request, completion, "beam") if needs_fork else completion)
        # 2) tokens and ends of sequences, then the beams that were not chosen
        outputs = []
        for choice, completion in zip(choices, targets, strict=True):
            completion.score, completion.beam, completion.alternatives = choice.score, Beam(choice.cumulative), None
            top = tops[choice.place]
            assert top is not None
            candidate = choice.candidate
            sampled = Sampled(candidate.token_id, candidate.raw_logprob, top.top_ids, top.top_logprobs)
            outputs.append(self._append(completion, sampled))
        for place, completion in enumerate(running):
            if place not in in_place:
                self._finish(request, completion, "dropped", "")
        return outputs

    # prompts

    def _score_prompts(self, slices: Sequence[SequenceSlice], logits: Tensor) -> tuple[Tensor, list[PromptLogprob]]:
        """Return the rows of logits for sampling, and the log probabilities of prompt tokens."""
        rows, found, at = list[int](), list[PromptLogprob](), 0
        for piece in slices:
            needed = 1 + piece.num_drafts if piece.samples else 0
            count = len(piece.token_ids) if piece.all_logits else needed
            rows += range(at + count - needed, at + count)
            if piece.all_logits:
                found += self._score_prompt(piece, logits[at : at + count])
            at += count
        return logits[self._row_indices(rows)], found

    def _score_prompt(self, piece: SequenceSlice, logits: Tensor) -> list[PromptLogprob]:
        """Score prompt tokens. Row i of logits [T, V], at position piece.start + i, scores the next token."""
        sequence = self.live[piece.seq_id].sequence
        request = self.requests[sequence.request_id]
        # tokens before `first` were scored before a preemption
        first = sequence.num_prompt_tokens - request.num_prompt_logprobs
        last = min(piece.start + logits.shape[0], sequence.num_prompt_tokens - 1)
        if last < first:
            return []
        token_ids = sequence.token_ids[first : last + 1]
        rows = logits[first - 1 - piece.start : last - piece.start]
        request.num_prompt_logprobs -= len(token_ids)
        sequence.skip_reading_prefix_cache = request.num_prompt_logprobs > 0
        scored = self.sampler.score(rows, token_ids, request.sampling.prompt_logprobs or 0)
        return [
            PromptLogprob(
                seq_id=sequence.seq_id,
                position=position,
                token_id=item.token_id,
                logprob=item.logprob,
                top=self._candidates(item, len(item.top_ids)),
            )
            for position, item in enumerate(scored, first)
        ]

    def _num_alternatives(self, completion: SequenceOutput) -> int:
        """Return the number of alternatives recorded with each token of a sequence."""
        return max(self._num_logprobs, completion.sampling.logprobs or 0)

    def _candidates(self, sampled: Sampled, count: int) -> list[Candidate]:
        """Return the first `count` candidates; more may have been sampled for other sequences of the batch."""
        top_ids = sampled.top_ids[:count]
        return list(map(Candidate, top_ids, map(self.token_bytes, top_ids), sampled.top_logprobs))
