"""Validation of requests, so that requests that can never be served do not reach the scheduler."""

from __future__ import annotations

import time
from collections.abc import Iterable

from engine.config import SamplingParams
from engine.model.loaded import LoadedModel
from engine.model.sampling import derived_seed
from engine.options.refusal import Sentence, sentence
from engine.options.table import table_of
from engine.requests.request import Request
from engine.requests.request_spec import RequestError, RequestSpec, check_characters
from engine.scheduling.capacity import max_tokens_that_fit
from engine.scheduling.sequence import Sequence
from engine.setup.resolve import Resolved
from engine.trace.limits import MAX_WHOLE


class InputProcessor:
    """Processor of incoming requests for one model and one resolved configuration."""

    def __init__(self, model: LoadedModel, resolved: Resolved) -> None:
        self.max_model_len = resolved.max_model_len
        self._model = model
        self._config = resolved.config
        self._num_blocks = resolved.num_blocks
        self._groups = resolved.groups
        self.tokenize_seconds = 0.0  # time for tokenizing the texts of the last `accept`

    def accept(
        self,
        specs: Iterable[RequestSpec],
        first_seq_id: int,
        num_before: int,
        ids_in_use: set[str],
        stride: int = 1,
    ) -> list[Request]:
        """Return a request for each spec, with sequence ids that ascend by `stride`. One invalid spec refuses all.

        `num_before`: number of previously accepted requests, on which default seeds depend.

        Raises:
            RequestError: a request is empty, too long for the model or the pool, or its id is in use.
            ConfigError: a sampling parameter is out of range.
        """
        ids = set(ids_in_use)
        self.tokenize_seconds = 0.0
        requests = []
        for index, spec in enumerate(specs):
            request = self._request(spec, first_seq_id + index * stride, num_before + index, ids)
            ids.add(request.request_id)
            requests.append(request)
        return requests

    def adjusted_max_tokens(self, request: Request, sampling: SamplingParams) -> int:
        """Return the new max_tokens of an unfinished request under other parameters.

        Raises:
            RequestError: the parameters cannot be changed, or the request already has that many tokens.
            ConfigError: a parameter is out of range.
        """
        sampling.checked()
        for name, row in table_of(SamplingParams).items():
            if not row.option.may_change and getattr(sampling, name) != getattr(request.sampling, name):
                raise RequestError(sentence("adjust.settled", name=name))
        if request.beams is not None:
            raise RequestError(sentence("adjust.beams"))
        self._check_sampling(sampling)
        max_tokens = self._max_tokens(request.num_prompt_tokens, sampling)
        longest = max(completion.num_output_tokens for completion in request.unfinished)
        if max_tokens <= longest:
            raise RequestError(sentence("adjust.max_tokens", longest=longest))
        reserved = request.sequence.max_tokens
        if self._config.strategy == "first_fit" and request.sequence.status == "running" and max_tokens > reserved:
            raise RequestError(sentence("adjust.reserved", reserved=reserved))
        return max_tokens

    def _request(self, spec: RequestSpec, seq_id: int, number: int, ids_in_use: set[str]) -> Request:
        sampling = spec.sampling.checked()
        self._check_sampling(sampling)
        request_id = spec.request_id or f"request-{number}"
        if request_id in ids_in_use:
            raise RequestError(sentence("request.id", request_id=request_id), "request_id")
        if abs(spec.priority) > MAX_WHOLE:
            wrong = sentence("request.priority", least=-MAX_WHOLE, most=MAX_WHOLE, value=spec.priority)
            raise RequestError(wrong, "priority")
        token_ids = self._encode(spec.prompt)
        max_tokens = self._max_tokens(len(token_ids), sampling)
        sequence = Sequence(
            seq_id=seq_id,
            request_id=request_id,
            token_ids=token_ids,
            num_prompt_tokens=len(token_ids),
            max_tokens=max_tokens,
            priority=spec.priority,
            cache_salt=spec.cache_salt,
            client=spec.client,
            waited=spec.waited,
            transfer=spec.transfer,
            kv_role=spec.kv_role,
            arrival=seq_id,
            num_forks=sampling.num_sequences - 1,
            in_lockstep=sampling.use_beam_search,
            skip_reading_prefix_cache=sampling.prompt_logprobs is not None and len(token_ids) > 1,
        )
        seed = derived_seed(self._config.seed, number) if sampling.seed is None else sampling.seed
        return Request(sequence, sampling, self._model.tokenizer, seed)

    def _check_sampling(self, sampling: SamplingParams) -> None:
        """Check the sampling parameters that depend on the model and the configuration."""
        limit, vocab_size = self._config.max_num_seqs, self._model.facts.vocab_size
        if sampling.num_sequences > limit:
            raise RequestError(sentence("request.sequences", num_sequences=sampling.num_sequences, limit=limit), "n")
        if sampling.num_sequences > 1 and (self._config.strategy == "first_fit" or self._config.by_sequence):
            raise RequestError(
                sentence("request.piece", strategy=self._config.strategy, num_sequences=sampling.num_sequences),
                "n",
            )
        if sampling.use_beam_search and self._config.strategy == "none":
            raise RequestError(sentence("request.beams_cache"))
        if sampling.use_beam_search and self._config.speculative_config is not None:
            raise RequestError(sentence("request.beams_drafts"))
        if not all(i < vocab_size for i in sampling.logit_bias):
            raise RequestError(sentence("request.logit_bias", number=vocab_size - 1), "logit_bias")

    def _encode(self, prompt: str | list[int]) -> list[int]:
        if isinstance(prompt, str):
            if self._model.tokenizer is None:
                raise RequestError(sentence("request.no_tokenizer"))
            check_characters(len(prompt), self.max_model_len)
            begin = time.perf_counter()
            prompt = self._model.tokenizer.encode(prompt)
            self.tokenize_seconds += time.perf_counter() - begin
        if not prompt:
            raise RequestError(sentence("request.empty"))
        vocab_size = self._model.facts.vocab_size
        if not all(0 <= i < vocab_size for i in prompt):
            raise RequestError(sentence("request.token_ids", number=vocab_size - 1))
        return list(prompt)

    def _max_tokens(self, num_prompt_tokens: int, sampling: SamplingParams) -> int:
        """Return the maximum number of tokens to generate so that the sequence fits the model and the pool."""
        length, blocks, size, limit = (
            self.max_model_len, self._num_blocks, self._config.block_size, sampling.max_tokens,
        )  # fmt: skip
        if sampling.use_beam_search:  # after a preemption beams may share no blocks
            blocks //= sampling.beam_width
        if num_prompt_tokens >= length:
            raise RequestError(sentence("request.too_long", num_prompt_tokens=num_prompt_tokens, length=length))
        fit = self._max_tokens_in_pool(num_prompt_tokens, sampling.beam_width if sampling.use_beam_search else 1)
        if fit < 1:
            raise RequestError(
                sentence(
                    "request.blocks",
                    tokens=num_prompt_tokens,
                    blocks=-(-num_prompt_tokens // size),
                    size=size,
                    room=self._room(blocks, sampling),
                )
            )
        room = min(length - num_prompt_tokens, fit)
        if limit is not None and limit > room:
            raise RequestError(
                sentence(
                    "request.max_tokens",
                    tokens=num_prompt_tokens,
                    asked=limit,
                    most=room,
                    length=length,
                    room=self._room(blocks, sampling),
                    size=size,
                ),
                "max_tokens",
            )
        return room if limit is None else limit

    def _max_tokens_in_pool(self, num_prompt_tokens: int, num_sequences: int) -> int:
        """Return the largest max_tokens with which `num_sequences` simultaneous sequences fit every group of layers."""
        step, size, fit = self._config.tokens_a_step, self._config.block_size, self.max_model_len
        for group in self._groups:
            blocks = group.num_blocks // num_sequences
            if step is None or group.retention is None or group.retention.max_blocks(step, size) > blocks:
                fit = min(fit, max_tokens_that_fit(num_prompt_tokens, blocks, size))
        return fit

    def _room(self, blocks: int, sampling: SamplingParams) -> Sentence:
        if sampling.use_beam_search:
            width, num_blocks = sampling.beam_width, self._num_blocks
            return sentence("request.room_of_beam", width=width, blocks=blocks, num_blocks=num_blocks)
        return sentence("request.room", blocks=blocks)
