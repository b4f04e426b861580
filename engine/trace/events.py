"""The ordered operations of one record: everything that changes the state, in the order in which it happened.

`state.apply` needs nothing but these to rebuild block tables, ref counts, the free queue and every sequence; whatever
else a record holds (batch, outputs, timing, work, arrays) explains an operation and changes no state.

Where vLLM has an event for the same thing, the projection is: `cache` -> BlockStored, `evict` -> BlockRemoved.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

FinishReason = Literal["stop", "length", "abort"]
DeferReason = Literal["max_num_seqs", "token_budget", "no_free_blocks", "step_preempted"]
LookupVerdict = Literal["hit", "miss", "too_short", "disabled"]
QueueEnd = Literal["front", "back"]
Setting = str | int | float | bool | None | list[str | int]


class _Op(Struct, frozen=True, kw_only=True, tag_field="type", forbid_unknown_fields=False):
    """Base of all operations; on the wire a map with a `type` key."""


class Submit(_Op, frozen=True, kw_only=True, tag="submit"):
    """A request enters the waiting queue."""

    seq_id: int
    queue_position: int  # index in the waiting queue: the tail under FCFS, else by priority, ties by arrival
    request_id: str
    prompt_token_ids: list[int]
    prompt_token_bytes: list[bytes]  # what each token stands for; may be a fragment of a UTF-8 character
    max_tokens: int
    priority: int = 0
    cache_salt: str | None = None
    sampling: dict[str, Setting] = {}


class Lookup(_Op, frozen=True, kw_only=True, tag="lookup"):
    """The prefix cache was asked for a sequence's leading blocks.

    `hit`: num_hit_tokens > 0. `miss`: full blocks were asked for and the first is not cached. `too_short`: the prompt
    has no full block besides its last token (of n tokens at most n-1 can hit). `disabled`: prefix caching is off.
    """

    seq_id: int
    verdict: LookupVerdict
    num_tokens: int  # tokens of the sequence, the queried length
    num_hit_tokens: int  # a multiple of block_size
    block_ids: list[int]  # the blocks that hit, in logical order


class Admit(_Op, frozen=True, kw_only=True, tag="admit"):
    """waiting -> running. `num_cached_tokens` of it need no computation, because their blocks hit."""

    seq_id: int
    num_cached_tokens: int
    resumed: bool  # admitted again after a preemption


class Defer(_Op, frozen=True, kw_only=True, tag="defer"):
    """The head of the waiting queue was not admitted in this step, and why: it needed more than was available.

    `step_preempted` is about order, not room: blocks were just taken from a running sequence, so nobody is admitted,
    whether the needed blocks are available now or not.
    """

    seq_id: int
    reason: DeferReason
    needed: int  # in the unit of the reason: sequences, tokens, or blocks
    available: int


class Allocate(_Op, frozen=True, kw_only=True, tag="allocate"):
    """The block at the head of the free queue becomes the sequence's next logical block (ref_count 1)."""

    seq_id: int
    block_id: int
    logical: int  # index in the sequence's block table


class Evict(_Op, frozen=True, kw_only=True, tag="evict"):
    """A block's hash leaves the prefix cache: it is about to be reallocated, or what it promised was never written."""

    block_id: int
    block_hash: bytes


class Share(_Op, frozen=True, kw_only=True, tag="share"):
    """A prefix-cache hit: the block joins the sequence's table, ref_count + 1; `revived` from the free queue or not."""

    seq_id: int
    block_id: int
    logical: int
    revived: bool


class Fork(_Op, frozen=True, kw_only=True, tag="fork"):
    """The child gets the parent's tokens and table; every block's ref_count + 1, the partial tail too."""

    parent_seq_id: int
    seq_id: int
    request_id: str


class Copy(_Op, frozen=True, kw_only=True, tag="copy"):
    """Copy-on-write: before writing to a shared block the sequence got a copy. Follows the `allocate` of `dst`."""

    seq_id: int
    logical: int
    src: int
    dst: int


class Cache(_Op, frozen=True, kw_only=True, tag="cache"):
    """A full block got its hash and can be found by others."""

    seq_id: int
    block_id: int
    logical: int
    block_hash: bytes
    parent_hash: bytes | None
    token_ids: list[int]  # exactly block_size ids


class Write(_Op, frozen=True, kw_only=True, tag="write"):
    """Keys and values of positions [start, start + num_tokens) were written, all layers; they count as computed."""

    seq_id: int
    start: int
    num_tokens: int


class Sample(_Op, frozen=True, kw_only=True, tag="sample"):
    """A token was chosen and appended to the sequence. Its K and V do not exist yet: they are written a step later."""

    seq_id: int
    token_id: int


class Preempt(_Op, frozen=True, kw_only=True, tag="preempt"):
    """running -> waiting. The `free` operations of its blocks come before; its computed tokens are lost."""

    seq_id: int
    queue_position: int  # 0, the front, under FCFS
    mode: Literal["recompute"]
    for_seq_id: int  # the sequence whose allocation found no free block
    num_computed_tokens: int  # tokens that must be computed again, less what the prefix cache will still hold


class Discard(_Op, frozen=True, kw_only=True, tag="discard"):
    """Strategy `none`: the step's K and V are thrown away (`free` comes before), nothing counts as computed."""

    seq_id: int


class Free(_Op, frozen=True, kw_only=True, tag="free"):
    """The sequence lets go of its last block: ref_count - 1; at 0 it enters the free queue at `to`, else None."""

    seq_id: int
    block_id: int
    to: QueueEnd | None


class Finish(_Op, frozen=True, kw_only=True, tag="finish"):
    """The sequence is done (its `free` operations come before)."""

    seq_id: int
    reason: FinishReason
    detail: str = ""  # the stop string or id that ended it, or who aborted it


Op = (
    Submit
    | Lookup
    | Admit
    | Defer
    | Allocate
    | Evict
    | Share
    | Fork
    | Copy
    | Cache
    | Write
    | Sample
    | Preempt
    | Discard
    | Free
    | Finish
)
