"""Request in flight through a cluster: first on its prefill instance, then on its decode instance."""

from __future__ import annotations

from typing import Literal, NamedTuple

from engine.config import SamplingParams
from engine.requests.request_spec import RequestSpec
from engine.trace.disagg_ids import PREFILL


class Submitted(NamedTuple):
    """An accepted request."""

    request_id: str
    seq_id: int  # of what was submitted first
    num_prompt_tokens: int


class InflightRequest:
    """Request in flight. `spec`: with an id, token ids for its prompt and a seed."""

    def __init__(self, spec: RequestSpec) -> None:
        assert spec.request_id is not None
        self.request_id: str = spec.request_id
        self.spec = spec
        self.seq_id: int | None = None  # of the first submission, once confirmed
        self.transfer = ""  # name of the transfer of its keys and values
        self.instance = 0  # current instance
        self.part: Literal["prefill", "whole"] = "whole"  # its part there
        self.num_queued_tokens = 0  # prompt tokens that did not hit there
        self.num_unfinished = 0  # sequences
        self.is_taken = False  # whether the current instance has confirmed it
        self.has_output = False  # whether its prompt is computed there
        self.retries = 0  # of its prompt, on another instance

    @property
    def token_ids(self) -> list[int]:
        """Token ids of its prompt."""
        assert not isinstance(self.spec.prompt, str)
        return self.spec.prompt

    @property
    def num_prompt_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def cannot_begin_again(self) -> bool:
        """Whether the end of its instance ends the request: it is computed there as a whole and has been received."""
        return self.part == "whole" and self.is_taken

    @property
    def sent_spec(self) -> RequestSpec:
        """Request as its current instance gets it."""
        return self.prefill_of(self.spec, self.transfer) if self.part == "prefill" else self.spec

    @property
    def sent_id(self) -> str:
        """The request's id on the instance."""
        return self.request_id + PREFILL if self.part == "prefill" else self.request_id

    @staticmethod
    def prefill_of(spec: RequestSpec, transfer: str | None) -> RequestSpec:
        """Return the same prompt with one token, as vLLM's router sends it; the decode instance samples it again."""
        one = SamplingParams(max_tokens=1, ignore_eos=True)
        request_id = None if spec.request_id is None else spec.request_id + PREFILL
        return spec._replace(sampling=one, request_id=request_id, transfer=transfer, kv_role="kv_producer")


def may_move(spec: RequestSpec) -> bool:
    """Return whether its prompt can be computed elsewhere: prompt log probabilities are of the pass that computes
    it.
    """
    return spec.sampling.prompt_logprobs is None and len(spec.prompt) > 1
