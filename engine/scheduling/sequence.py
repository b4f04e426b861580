"""A sequence as the scheduler sees it: tokens, how many of them are computed, and its place among the others."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.trace.state import SequenceStatus


@dataclass(slots=True, eq=False)
class Sequence:
    """One sequence of a request. Two are equal only if they are the same object.

        token_ids    [0 ....... num_computed_tokens) [num_computed_tokens ....... len)
                      K and V in the cache            to be computed
                     [0 ... num_prompt_tokens) [num_prompt_tokens ............... len)
                      prompt                    output so far

    `token_ids` only ever grows. The scheduler changes everything below `num_forks`, nobody else does.
    """

    seq_id: int
    request_id: str
    token_ids: list[int]
    num_prompt_tokens: int
    max_tokens: int
    priority: int = 0  # lower first, under the priority policy
    arrival: int = 0  # decides between equal priorities: earlier first
    cache_salt: str | None = None  # sequences with different salts share no cached blocks
    num_forks: int = 0  # sequences still to be forked from this one; their places among max_num_seqs are kept free
    together: bool = False  # its forks go on in step with it (beams): the pool must have room for all of them at once
    skip_reading_prefix_cache: bool = False  # the logits of all its prompt tokens are wanted, so none may hit
    status: SequenceStatus = field(default="waiting", kw_only=True)
    num_computed_tokens: int = field(default=0, kw_only=True)
    num_cached_tokens: int = field(default=0, kw_only=True)  # computed for free by prefix hits, at the last admission
    num_preemptions: int = field(default=0, kw_only=True)

    @property
    def num_tokens(self) -> int:
        """Prompt and output so far."""
        return len(self.token_ids)

    @property
    def has_output(self) -> bool:
        """Whether a token was sampled: the prompt has been computed."""
        return len(self.token_ids) > self.num_prompt_tokens

    @property
    def is_computed(self) -> bool:
        """Whether it runs and every token has its K and V: what is missing is the next token."""
        return self.status == "running" and self.num_computed_tokens == len(self.token_ids)

    @property
    def rank(self) -> tuple[int, int, int]:
        """Under the priority policy the smallest rank is served first and the largest is preempted first."""
        return (self.priority, self.arrival, self.seq_id)
