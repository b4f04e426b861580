"""Sequence of the scheduler: its tokens, the number of computed tokens, and its rank."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.trace.operations import KVRole
from engine.trace.state import SequenceStatus


@dataclass(slots=True, eq=False)
class Sequence:
    """Sequence of a request, compared by identity.

        token_ids    [0 ....... num_computed_tokens) [num_computed_tokens ....... len)
                      K and V in the cache            to be computed
                     [0 ... num_prompt_tokens) [num_prompt_tokens ............... len)
                      prompt                    output

    Three objects represent a sequence, since three packages need it and may not import each other:

        Sequence           its tokens and its rank. It is in one of the scheduler's queues.
        cache.BlockTables  its blocks. Like the trace, the cache uses only `seq_id`. Hashes and swapped-out blocks are
                           stored under the same id while the sequence holds no blocks.
        SequenceOutput     its text, random draws and beam, which need a model. It refers to its `Sequence`. A `Request`
                           has the outputs of one prompt; the output processor finds them by `seq_id`.

    Other objects that name a sequence (a batch, a row of a slot table) are derived from these.

    The scheduler appends to `token_ids`, and writes `num_forks` and all fields below `skip_reading_prefix_cache`. Other
    code writes two fields while the sequence waits or runs: `max_tokens` when a request is adjusted, and
    `skip_reading_prefix_cache` when all log probabilities of the prompt are computed.
    """

    seq_id: int
    request_id: str
    token_ids: list[int]
    num_prompt_tokens: int
    max_tokens: int
    priority: int = 0  # lower first, under the priority policy
    arrival: int = 0  # order among equal priorities
    cache_salt: str | None = None  # sequences with different salts share no cached blocks
    client: str | None = None  # the sender of the request
    waited: float = 0.0  # seconds before it was submitted
    transfer: str | None = None  # name of its transfer between instances
    kv_role: KVRole | None = None
    num_forks: int = 0  # number of pending forks, which count towards max_num_seqs
    in_lockstep: bool = False  # whether the forks are beams, which the pool must hold simultaneously
    skip_reading_prefix_cache: bool = False  # set if the logits of all prompt tokens are needed
    status: SequenceStatus = field(default="waiting", kw_only=True)
    num_computed_tokens: int = field(default=0, kw_only=True)
    num_cached_tokens: int = field(default=0, kw_only=True)  # tokens that hit the prefix cache at the last admission
    num_preemptions: int = field(default=0, kw_only=True)
    max_computed_tokens: int = field(default=0, kw_only=True)  # maximum of num_computed_tokens, over preemptions
    draft_token_ids: list[int] = field(default_factory=list, kw_only=True)  # drafts of this step
    num_accepted_drafts: int = field(default=0, kw_only=True)  # number of accepted drafts of this step

    @property
    def num_tokens(self) -> int:
        """Number of prompt and output tokens."""
        return len(self.token_ids)

    @property
    def has_output(self) -> bool:
        """Whether a token has been sampled."""
        return len(self.token_ids) > self.num_prompt_tokens

    @property
    def is_computed(self) -> bool:
        """Whether the sequence runs and the K and V of every token are computed."""
        return self.status == "running" and self.num_computed_tokens == len(self.token_ids)

    @property
    def rank(self) -> tuple[int, int, int]:
        """Sort key of the priority policy: the smallest is admitted first, the largest is preempted first."""
        return (self.priority, self.arrival, self.seq_id)
