"""A sequence as the scheduler sees it: tokens, how many of them are computed, and its place among the others."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.trace.operations import KVRole
from engine.trace.state import SequenceStatus


@dataclass(slots=True, eq=False)
class Sequence:
    """Sequence of a request. Two are equal only if they are the same object.

        token_ids    [0 ....... num_computed_tokens) [num_computed_tokens ....... len)
                      K and V in the cache            to be computed
                     [0 ... num_prompt_tokens) [num_prompt_tokens ............... len)
                      prompt                    output so far

    Three objects represent a sequence, because three layers need it that may not import each other:

        Sequence           here: its tokens, and its place among the others. It is in one of the scheduler's
                           queues.
        cache.BlockTables  its blocks. The cache knows it by `seq_id` only, as the trace does, and stores its hashes and
                           its swapped-out blocks under the same id while it holds none.
        SequenceOutput     what needs a model: its text, its random draws, its beam. It has its `Sequence`; a `Request`
                           has the completions of one prompt, and the output processor finds a live one by `seq_id`.

    Everything else that names a sequence (a batch, a slot table's row) can be rebuilt from these.

    The scheduler appends to `token_ids`, which only ever grow, and writes `num_forks` and everything below
    `skip_reading_prefix_cache`. Two fields are written from outside while the sequence waits or runs: `max_tokens` when
    a request is adjusted, `skip_reading_prefix_cache` by the output processor when the prompt's log probabilities are
    done.
    """

    seq_id: int
    request_id: str
    token_ids: list[int]
    num_prompt_tokens: int
    max_tokens: int
    priority: int = 0  # lower first, under the priority policy
    arrival: int = 0  # decides between equal priorities: earlier first
    cache_salt: str | None = None  # sequences with different salts share no cached blocks
    client: str | None = None  # the sender of the request
    waited: float = 0.0  # seconds before it was submitted
    transfer: str | None = None  # the name under which its keys and values move between instances
    kv_role: KVRole | None = None
    num_forks: int = 0  # sequences still to be forked from this one; their places among max_num_seqs are reserved
    together: bool = False  # its forks go on in step with it (beams): the pool must have room for all of them at once
    skip_reading_prefix_cache: bool = False  # the logits of all its prompt tokens are wanted, so none may hit
    status: SequenceStatus = field(default="waiting", kw_only=True)
    num_computed_tokens: int = field(default=0, kw_only=True)
    num_cached_tokens: int = field(default=0, kw_only=True)  # tokens that hit the prefix cache at the last admission
    num_preemptions: int = field(default=0, kw_only=True)
    most_computed_tokens: int = field(default=0, kw_only=True)  # at any time, before preemptions too
    draft_token_ids: list[int] = field(default_factory=list, kw_only=True)  # in a step only: to be verified
    num_accepted_drafts: int = field(default=0, kw_only=True)  # of these, so far

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
