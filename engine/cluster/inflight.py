"""State of an unfinished request of a cluster: first on its prefill instance, then on its decode instance."""

from __future__ import annotations

from typing import Literal, NamedTuple

from engine.config import SamplingParams
from engine.requests.request_spec import RequestSpec
from engine.trace.disagg_ids import PREFILL


class Submitted(NamedTuple):
    """An accepted request."""

    request_id: str
    seq_id: int  # of the first submission
    num_prompt_tokens: int


class InflightRequest:
    """Unfinished request. Its `spec` has an id, prompt token ids and a seed."""

    def __init__(self, spec: RequestSpec) -> None:
        assert spec.request_id is not None
        self.request_id: str = spec.request_id
        self.spec = spec
        self.seq_id: int | None = None  # of the first submission, once confirmed
        self.transfer = ""  # name of the transfer of its keys and values
        self.instance = 0  # current instance
        self.part: Literal["prefill", "whole"] = "whole"  # prefill only, or all remaining work, on the current instance
        self.num_queued_tokens = 0  # prompt tokens that are not cached there
        self.num_unfinished = 0  # sequences
        self.is_confirmed = False  # whether the current instance has confirmed it
        self.has_output = False  # whether the current instance has computed its prompt
        self.retries = 0  # number of times its prefill was retried on another instance

    @property
    def token_ids(self) -> list[int]:
        assert not isinstance(self.spec.prompt, str)
        return self.spec.prompt

    @property
    def num_prompt_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def ends_with_instance(self) -> bool:
        """Whether the request is lost if its instance ends: the instance has confirmed it, and decodes it."""
        return self.part == "whole" and self.is_confirmed

    @property
    def sent_spec(self) -> RequestSpec:
        """Spec that is sent to the current instance."""
        return self.prefill_of(self.spec, self.transfer) if self.part == "prefill" else self.spec

    @property
    def sent_id(self) -> str:
        return self.request_id + PREFILL if self.part == "prefill" else self.request_id

    @staticmethod
    def prefill_of(spec: RequestSpec, transfer: str | None) -> RequestSpec:
        """Return a spec of the same prompt and one output token, which the decode instance samples again.

        vLLM's router sends the same to its prefill instances.
        """
        one = SamplingParams(max_tokens=1, ignore_eos=True)
        request_id = None if spec.request_id is None else spec.request_id + PREFILL
        return spec._replace(sampling=one, request_id=request_id, transfer=transfer, kv_role="kv_producer")


def may_move(spec: RequestSpec) -> bool:
    """Return whether a prefill instance can compute the prompt.

    Prompt log probabilities must be returned by the instance that computes the prompt.
    """
    return spec.sampling.prompt_logprobs is None and len(spec.prompt) > 1
