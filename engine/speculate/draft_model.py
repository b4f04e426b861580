"""Draft model: a smaller model with the same vocabulary, which continues each sequence greedily.

It runs in a separate engine with prefix caching and small blocks. Each proposal is a request with all tokens of the
sequence. So blocks computed for earlier proposals hit the prefix cache, and blocks with rejected tokens never do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence as Items
from typing import Protocol

from engine.accounting.memory import stored_bytes_per_token
from engine.config import EngineConfig, SamplingParams
from engine.model.loaded import LoadedModel
from engine.scheduling.sequence import Sequence
from engine.scheduling.speculation import NO_DRAFTS, Proposal
from engine.trace.operations import DraftMethod
from engine.trace.records import StepRecord


class DraftEngine(Protocol):
    """Interface of a drafter's engine."""

    config: EngineConfig

    def add_request(
        self, prompt: list[int], sampling: SamplingParams | None = None, *, cache_salt: str | None = None
    ) -> Drafted: ...

    def abort(self, request_id: str) -> bool: ...

    def step(self) -> StepRecord: ...

    def has_unfinished(self) -> bool: ...

    def close(self) -> None: ...

    def release(self) -> None: ...


class Drafted(Protocol):
    """Request of the draft engine."""

    @property
    def request_id(self) -> str: ...

    @property
    def seq_id(self) -> int: ...

    @property
    def output_token_ids(self) -> list[int]: ...


class ModelDrafter:
    """Drafter that proposes the greedy continuation of a draft model. It owns the engine."""

    method: DraftMethod = "draft_model"

    def __init__(self, model: LoadedModel, engine: DraftEngine) -> None:
        self._kv_bytes_per_token = stored_bytes_per_token(model.facts, engine.config.kv_cache_dtype)
        self._engine = engine

    def propose(self, wanted: Items[tuple[Sequence, int]]) -> list[Proposal]:
        """Implement `Drafter.propose`."""
        requests: list[Drafted | None] = []
        longest = self._engine.config.max_model_len or 0
        computed: Counter[int] = Counter()
        try:
            for sequence, max_drafts in wanted:
                max_tokens = min(max_drafts, longest - sequence.num_tokens)
                sampling = SamplingParams(max_tokens=max_tokens, ignore_eos=True) if max_tokens > 0 else None
                prompt = list(sequence.token_ids)
                salt = sequence.cache_salt
                requests.append(self._engine.add_request(prompt, sampling, cache_salt=salt) if sampling else None)
            while self._engine.has_unfinished():
                for entry in self._engine.step().batch:
                    computed[entry.seq_id] += len(entry.token_ids)
        except Exception:
            for request in requests:
                if request is not None:
                    self._engine.abort(request.request_id)
            raise
        return [
            NO_DRAFTS if request is None else self._proposal(request, sequence, computed[request.seq_id])
            for request, (sequence, _) in zip(requests, wanted, strict=True)
        ]

    def close(self) -> None:
        """Close the engine and free its pool."""
        self._engine.close()
        self._engine.release()

    def _proposal(self, request: Drafted, sequence: Sequence, num_computed: int) -> Proposal:
        token_ids = request.output_token_ids
        num_stored = sequence.num_tokens + len(token_ids) - 1  # the last token's keys are not computed
        return Proposal(token_ids, num_computed_tokens=num_computed, num_bytes=num_stored * self._kv_bytes_per_token)
