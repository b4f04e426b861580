"""Draft model: a smaller model with the same vocabulary continues each sequence greedily.

It runs in a separate engine with prefix caching and small blocks. Each proposal is a request with all tokens so far.
So content computed for earlier proposals hits its cache, and content of rejected tokens is never found again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence as Items
from typing import Protocol

from engine.accounting.memory import stored_bytes_per_token
from engine.config import EngineConfig, SamplingParams
from engine.model.loaded import LoadedModel
from engine.scheduling.sequence import Sequence
from engine.scheduling.speculation import NOTHING, Proposal
from engine.trace.operations import DraftMethod
from engine.trace.records import StepRecord


class DraftEngine(Protocol):
    """Interface of the engine that a drafter uses."""

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
    """A request of the draft engine."""

    @property
    def request_id(self) -> str: ...

    @property
    def seq_id(self) -> int: ...

    @property
    def output_token_ids(self) -> list[int]: ...


class ModelDrafter:
    """Proposes the greedy continuation of a draft model. Its engine is closed with it."""

    method: DraftMethod = "draft_model"

    def __init__(self, model: LoadedModel, engine: DraftEngine) -> None:
        self._kv_bytes_per_token = stored_bytes_per_token(model.facts, engine.config.kv_cache_dtype)
        self._engine = engine

    def propose(self, wanted: Items[tuple[Sequence, int]]) -> list[Proposal]:
        """Return up to so many draft tokens for each sequence."""
        requests: list[Drafted | None] = []
        longest = self._engine.config.max_model_len or 0
        computed: Counter[int] = Counter()
        try:
            for sequence, most in wanted:
                most = min(most, longest - sequence.num_tokens)
                sampling = SamplingParams(max_tokens=most, ignore_eos=True) if most > 0 else None
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
            NOTHING if request is None else self._proposal(request, sequence, computed[request.seq_id])
            for request, (sequence, _) in zip(requests, wanted, strict=True)
        ]

    def close(self) -> None:
        """Close the engine and free its pool."""
        self._engine.close()
        self._engine.release()

    def _proposal(self, request: Drafted, sequence: Sequence, num_computed: int) -> Proposal:
        token_ids = request.output_token_ids
        num_held = sequence.num_tokens + len(token_ids) - 1  # the last token's keys were never computed
        return Proposal(token_ids, num_computed_tokens=num_computed, num_bytes=num_held * self._kv_bytes_per_token)
