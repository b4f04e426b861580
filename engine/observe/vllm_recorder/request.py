"""The recorded part of a vLLM request."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from engine.model.detokenizer import IncrementalDetokenizer
from engine.observe.vllm_recorder.blocks import Table
from engine.trace.operations import Setting
from engine.trace.records import Phase

_RANDOM_END = re.compile(r"-[0-9a-f]{8}$")  # suffix that vLLM appends to the user's id
SAMPLING = ("temperature", "top_p", "top_k", "min_p", "seed", "ignore_eos", "repetition_penalty", "min_tokens")


class VllmRequest(Protocol):
    """The fields of `vllm.v1.request.Request` that the recorder reads."""

    request_id: str
    prompt_token_ids: list[int] | None
    all_token_ids: Any  # grows
    block_hashes: list[bytes]  # of full blocks; grows
    max_tokens: int
    priority: int
    cache_salt: str | None
    sampling_params: Any
    num_computed_tokens: int
    skip_reading_prefix_cache: bool

    def __lt__(self, other: Any) -> bool: ...


@dataclass(eq=False)
class RecordedRequest:
    """State of a recorded request. `token_ids`: tokens recorded so far."""

    seq_id: int
    name: str
    request: VllmRequest
    token_ids: list[int]
    table: Table = field(init=False)
    num_prompt_tokens: int = field(init=False)
    was_preempted: bool = False
    has_ended: bool = False
    text: IncrementalDetokenizer | None = None

    def __post_init__(self) -> None:
        self.table = Table(self.seq_id)
        self.num_prompt_tokens = len(self.token_ids)

    @property
    def sampling(self) -> dict[str, Setting]:
        """Sampling parameters by vLLM's names."""
        params = self.request.sampling_params
        found = {name: getattr(params, name, None) for name in SAMPLING}
        return {name: value for name, value in found.items() if isinstance(value, str | int | float | bool)}


def public_name(request_id: str, others: Iterable[RecordedRequest]) -> str:
    """Return the user's id, or the full id if another unfinished request has the same user id."""
    name = _RANDOM_END.sub("", request_id)
    return request_id if any(one.name == name for one in others) else name


def phase_of(one: RecordedRequest, start: int, num_tokens: int) -> Phase:
    """Return "decode" if only the last sampled token is computed, otherwise "prefill" (also for recomputation)."""
    return "decode" if num_tokens == 1 and start >= one.num_prompt_tokens else "prefill"
