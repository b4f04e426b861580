"""Operations of a record, which are the changes of the state, in order.

`apply.apply` rebuilds block tables, ref counts, free queues and sequences from them alone. The rest of a record (batch,
outputs, timing, work, arrays) does not change the state.

Equivalent vLLM events: `cache` -> BlockStored, `evict` -> BlockRemoved.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from engine.trace.limits import Int, Seconds

FinishReason = Literal["stop", "length", "abort", "dropped"]  # dropped: a pruned beam
DeferReason = Literal["max_num_seqs", "token_budget", "no_free_blocks", "fragmented", "step_preempted"]
LookupVerdict = Literal["hit", "miss", "too_short", "disabled", "skipped"]
LookupReason = Literal[
    "evicted",
    "shared_too_short",
    "differs",
    "earlier_ended",
    "other_salt",
    "other_ablation",
    "no_state",
    "not_computed",
    "nothing_shared",
    "forgotten",
]
ForkReason = Literal["sample", "beam"]
PreemptionMode = Literal["recompute", "swap"]
PreemptReason = Literal["last_admitted", "worst_priority", "deadlock"]
AllocateReason = Literal[
    "admission", "resume", "chunk", "append", "draft", "recompute", "copy", "swap_in", "load", "receive"
]  # fmt: skip
FreeReason = Literal["finish", "preempt", "swap", "discard", "sent", "expired", "transfer_failed", "take_back"]
DraftMethod = Literal["ngram", "draft_model"]
QueueEnd = Literal["front", "back"]
ReleaseReason = Literal["window", "policy", "state", "forgotten"]
Medium = Literal["cpu", "disk"]
ExternalVerdict = Literal["load", "compute", "miss"]
KVRole = Literal["kv_producer", "kv_consumer"]
TransferFault = Literal[
    "unknown", "consumed", "expired", "stale", "out_of_range", "other_layout", "other_text", "lost", "late", "gone",
    "no_room", "step_failed",
]  # fmt: skip
KnownReason = Literal["attached", "restarted", "gap", "cleared", "continued"]
RELEASED = -1  # block table entry whose block was released while the sequence runs
Setting = str | int | float | bool | None | list[str | int] | dict[str, float]


class _Op(Struct, frozen=True, gc=False, kw_only=True, tag_field="type", forbid_unknown_fields=False):
    """Base of all operations; encoded as a map with a `type` key."""

    shown: ClassVar[str] = ""  # label on a timeline, with field names in braces; "": not shown

    @property
    def moved_bytes(self) -> int:
        """Bytes moved between the pool and memory outside it."""
        return 0


class BlockOp(_Op, frozen=True, kw_only=True):
    """Base of the operations on one block of one sequence."""

    holds: ClassVar[int] = 0  # number of block table entries that the operation adds to the sequence

    seq_id: Int


class Submit(_Op, frozen=True, kw_only=True, tag="submit"):
    """A request enters the waiting queue."""

    seq_id: Int
    queue_position: Int  # index in the waiting queue: the tail under FCFS, else by priority, ties by arrival
    request_id: str
    prompt_token_ids: list[Int]
    prompt_token_bytes: list[bytes]  # bytes of each token; may be a fragment of a UTF-8 character
    max_tokens: Int
    priority: Int = 0
    cache_salt: str | None = None
    sampling: dict[str, Setting] = {}
    client: str | None = None  # the sender, if several share an engine
    waited: Seconds = 0.0  # seconds since arrival at the server (reading, tokenizing, fair queue); a clock reading
    transfer: str | None = None  # id of the KV transfer between instances
    kv_role: KVRole | None = None  # whether this instance sends or receives the KV


class Lookup(_Op, frozen=True, kw_only=True, tag="lookup"):
    """Prefix-cache lookup of a sequence's leading blocks.

    `hit`: num_hit_tokens > 0. `miss`: full blocks were looked up and the first is not cached. `too_short`: the prompt
    has no full block besides its last token (of n tokens at most n-1 can hit). `disabled`: prefix caching is off.
    `skipped`: prompt log probabilities are requested, so every prompt token must be computed.

    `reason` says why no more tokens hit; None = every block that may hit did, or there was no lookup. B is the block
    size, and s is num_shared_tokens. The *closest* sequence is the earlier one of the same salt with the longest common
    prefix, among the most recently admitted ones (see PrefixMemory).

    `evicted`           the next block was cached: `lost_block_id` held it until record `evicted_in`, when it was
                        reallocated to sequence `evicted_for`
    `shared_too_short`  the closest sequence shares s < B tokens, which is less than a block
    `differs`           the first token that differs from the closest sequence is at position s
    `earlier_ended`     the closest sequence has no token at position s, so its last block was never full
    `other_salt`        the closest sequence has the next block's tokens, but another salt
    `other_ablation`    the closest sequence has the next block's tokens, but was ablated differently
    `no_state`          keys of the first s tokens are cached, but no recurrent state after the hits
    `not_computed`      the closest sequence has the next block's tokens, but has not computed them
    `nothing_shared`    no recently admitted sequence begins with the same token
    `forgotten`         the sequence that had the next block is no longer among the recently admitted ones
    """

    seq_id: Int
    verdict: LookupVerdict
    num_tokens: Int  # tokens of the sequence
    num_hit_tokens: Int  # a multiple of block_size
    block_ids: list[Int]  # blocks that hit, in logical order
    reason: LookupReason | None = None
    closest_seq_id: Int | None = None  # the sequence itself, if it was preempted
    num_shared_tokens: Int = 0  # leading tokens shared with the closest sequence
    lost_block_id: Int | None = None
    evicted_in: Int | None = None  # record index
    evicted_for: Int | None = None  # seq_id


class LookupExternal(_Op, frozen=True, kw_only=True, tag="lookup_external"):
    """Lookup in the external store (vLLM: a connector) for the blocks after the prefix-cache hits.

    `load`: the blocks found are loaded, because that is faster than computing them. `compute`: computing them is
    faster. `miss`: no usable block is found. The two times are estimates from the loads and prefills on this machine so
    far, so they vary like clock readings. If one is None (not measured yet), the blocks found are loaded.

    `media[i]` is the tier of block i after the hits. If several groups of layers have content, it is the slowest tier.
    """

    seq_id: Int
    verdict: ExternalVerdict
    num_tokens: Int  # queried tokens: full blocks after the hits, without the last token
    num_found_tokens: Int  # found tokens among them
    media: list[Medium] = []  # tier of each block found
    num_bytes: Int = 0  # bytes that loading them moves
    load_seconds: float | None = None
    compute_seconds: float | None = None


class Admit(_Op, frozen=True, kw_only=True, tag="admit"):
    """waiting -> running. The token counts are those that need no computation, because their blocks hit
    (`num_cached_tokens`), are swapped in, or are loaded from outside the pool.

    Swapped-in sequences have no lookup, so either `num_swapped_tokens` is 0, or the two other counts are.
    """

    seq_id: Int
    num_cached_tokens: Int
    resumed: bool  # admitted again after a preemption
    num_swapped_tokens: Int = 0
    num_external_tokens: Int = 0  # positions after the cached ones


class Defer(_Op, frozen=True, kw_only=True, tag="defer"):
    """The head of the waiting queue was not admitted in this step, because it needed more than was available.

    `step_preempted`: this step preempted a running sequence, so it admits none, even if blocks are available now.
    `fragmented`: under strategy `first_fit`, enough blocks were free, but not adjacent. `available` is the size of the
    largest hole.
    """

    seq_id: Int
    reason: DeferReason
    needed: Int  # in the unit of the reason: sequences, tokens, or blocks
    available: Int
    num_free: Int | None = None  # free blocks in all holes, for `fragmented`


class Reserve(BlockOp, frozen=True, kw_only=True, tag="reserve"):
    """Strategy `first_fit`: adjacent blocks are reserved for the sequence's prompt and all tokens it may generate.

    They are at the beginning of the first hole that is large enough. They move to the head of the free queue in order,
    where the following `allocate` operations take them.
    """

    shown: ClassVar[str] = "reserve {num_blocks} blocks from {block_id}"

    block_id: Int  # first block
    num_blocks: Int
    hole_blocks: Int  # size of the hole


class Requeue(_Op, frozen=True, kw_only=True, tag="requeue"):
    """Free blocks move to the head of the free queue, in this order.

    This occurs only in logs of other engines, which free several blocks without a hash at once, with the table's last
    block at the head. This engine adds freed blocks to the head one at a time.
    """

    block_ids: list[Int]


class Allocate(BlockOp, frozen=True, kw_only=True, tag="allocate"):
    """The block at the head of the free queue becomes the sequence's next logical block (ref_count 1).

    `reason` is the purpose of the block; None: unknown.

    `admission`   the first tokens of a newly admitted sequence
    `resume`      the first tokens of a sequence that was preempted
    `chunk`       the next chunk of its prompt, or of tokens recomputed after a preemption
    `append`      the last sampled token begins a new block
    `draft`       draft tokens exceed the sequence's last block; `draft` follows
    `recompute`   strategy `none` recomputes all tokens in every step
    `copy`        the sequence is about to write to a shared block; `copy` follows
    `swap_in`     content is swapped in from the CPU store; `swap_in` follows
    `load`        content is loaded from outside the pool; `load` follows
    `receive`     content is received from another instance; `await` follows, and `receive` in a later record
    """

    holds: ClassVar[int] = 1

    block_id: Int
    logical: Int  # index in the sequence's block table
    reason: AllocateReason | None = None


class Evict(_Op, frozen=True, kw_only=True, tag="evict"):
    """A block's hash is removed from the prefix cache: the block is reallocated, or its content was never written.

    The times are in steps; those of vLLM's metrics are in seconds (kv_block_lifetime, kv_block_idle_before_evict,
    kv_block_reuse_gap). An access is the allocation or a hit.
    """

    shown: ClassVar[str] = "evict block {block_id}"

    block_id: Int
    block_hash: bytes
    seq_id: Int | None = None  # sequence that allocates the block, or that failed to write it; None: a failed load
    lifetime_steps: Int = 0  # since the allocation
    idle_steps: Int = 0  # since the last access
    num_hits: Int = 0
    reuse_gap_steps: list[Int] = []  # steps between consecutive hits, for the last few hits


class Share(BlockOp, frozen=True, kw_only=True, tag="share"):
    """Prefix-cache hit: the block is added to the sequence's table, ref_count + 1. `revived`: it was free."""

    holds: ClassVar[int] = 1

    block_id: Int
    logical: Int
    revived: bool


class Fork(_Op, frozen=True, kw_only=True, tag="fork"):
    """The child gets the parent's tokens and table; ref_count + 1 for every block, including the partial last one.

    `sample`: another sample of the same prompt, with its own seed. `beam`: a second continuation of one beam.
    """

    parent_seq_id: Int
    seq_id: Int
    request_id: str
    reason: ForkReason = "sample"
    seed: int | None = None  # seed of a sample


class Copy(BlockOp, frozen=True, kw_only=True, tag="copy"):
    """Copy-on-write before the sequence writes to a shared block. It follows the `allocate` of `dst`."""

    shown: ClassVar[str] = "copy block {src} to {dst}"

    logical: Int
    src: Int
    dst: Int


class Cache(_Op, frozen=True, kw_only=True, tag="cache"):
    """A full block gets its hash and can be hit."""

    seq_id: Int
    block_id: Int
    logical: Int
    block_hash: bytes
    parent_hash: bytes | None
    token_ids: list[Int]  # exactly block_size ids


class Write(_Op, frozen=True, kw_only=True, tag="write"):
    """Keys and values of positions [start, start + num_tokens) were written in all layers and count as computed."""

    seq_id: Int
    start: Int
    num_tokens: Int


class Sample(_Op, frozen=True, kw_only=True, tag="sample"):
    """A token was sampled and appended to the sequence. Its K and V are written one step later."""

    seq_id: Int
    token_id: Int
    sampled_token_id: Int | None = None  # token of the sampler, if `choose` replaced it


class Draft(_Op, frozen=True, kw_only=True, tag="draft"):
    """Draft tokens that this step computes after the sequence's last token.

    `ngram`: the sequence's last `match_length` tokens also occur at position `match_start`, followed by the draft
    tokens. `draft_model`: a smaller model continued the sequence.
    """

    shown: ClassVar[str] = "draft tokens of sequence {seq_id}"

    seq_id: Int
    token_ids: list[Int]
    token_bytes: list[bytes]
    method: DraftMethod
    match_start: Int | None = None
    match_length: Int = 0
    num_computed_tokens: Int = 0  # tokens that the draft model computed for this proposal
    num_bytes: Int = 0  # bytes of the draft model's keys and values for the sequence


class Verify(_Op, frozen=True, kw_only=True, tag="verify"):
    """The first `num_accepted` drafts equal the tokens sampled at their positions. Their `sample` operations precede,
    with one more for the token after them, unless the sequence ends there.
    """

    seq_id: Int
    num_drafted: Int
    num_accepted: Int


class TakeBack(_Op, frozen=True, kw_only=True, tag="take_back"):
    """Rejected drafts: keys and values of positions [start, start + num_tokens) no longer count as computed.

    The `free` operations of blocks that only they need precede. Their content in remaining blocks is overwritten later.
    """

    shown: ClassVar[str] = "take back {num_tokens} drafts"

    seq_id: Int
    start: Int
    num_tokens: Int


class Choose(_Op, frozen=True, kw_only=True, tag="choose"):
    """External command: the token at `position` will be `token_id`, whatever is sampled there.

    A later choice for the same position replaces it. The sampler still draws, so later draws are unchanged.
    """

    seq_id: Int
    position: Int
    token_id: Int
    token_bytes: bytes


class Adjust(_Op, frozen=True, kw_only=True, tag="adjust"):
    """External command: change the sampling parameters of a request's unfinished sequences.

    Their random generators continue unless `seed` changes.
    """

    request_id: str
    seq_ids: list[Int]  # waiting and running sequences
    max_tokens: Int
    sampling: dict[str, Setting]  # all parameters, changed or not


class _Swap(BlockOp, frozen=True, kw_only=True):
    """A block's content moves between the pool and the CPU store."""

    logical: Int
    block_id: Int
    cpu_block_id: Int
    num_bytes: Int  # bytes of the whole block in all layers of its group

    @property
    def moved_bytes(self) -> int:
        return self.num_bytes


class SwapOut(_Swap, frozen=True, kw_only=True, tag="swap_out"):
    """Preemption by swap: a block's content is copied to a block of the CPU store. The `free` operations follow."""

    shown: ClassVar[str] = "swap out block {block_id}"


class SwapIn(_Swap, frozen=True, kw_only=True, tag="swap_in"):
    """The content is copied back into a block that was just allocated for it. The CPU block is freed."""

    shown: ClassVar[str] = "swap in block {block_id}"


class Load(BlockOp, frozen=True, kw_only=True, tag="load"):
    """The content of a full block is read from outside the pool, where this or another run stored it (`store`).

    It is copied into a block that was just allocated for it. The external copy remains.
    """

    shown: ClassVar[str] = "load block {block_id} from {medium}"

    logical: Int
    block_id: Int
    block_hash: bytes
    medium: Medium
    num_bytes: Int  # bytes of the whole block in all layers of its group

    @property
    def moved_bytes(self) -> int:
        return self.num_bytes


class Store(_Op, frozen=True, kw_only=True, tag="store"):
    """A full block's content was copied to the store outside the pool, which did not have it."""

    shown: ClassVar[str] = "store block {block_id} in {medium}"

    block_id: Int
    block_hash: bytes
    medium: Medium  # fastest tier that accepts it; slower tiers copy it from there
    num_bytes: Int

    @property
    def moved_bytes(self) -> int:
        return self.num_bytes


class Await(_Op, frozen=True, kw_only=True, tag="await"):
    """waiting -> receiving: the sequence has allocated blocks (reason `receive`) for KV of another instance.

    Its `num_cached_tokens` leading tokens are local hits. In vLLM: WAITING_FOR_REMOTE_KVS.
    """

    seq_id: Int
    transfer: str
    num_cached_tokens: Int
    num_tokens: Int  # number of tokens to receive after those


class Receive(BlockOp, frozen=True, kw_only=True, tag="receive"):
    """A block's content was received from block `from_block_id` of another instance; `arrive` follows.

    The last block may be partly filled.
    """

    shown: ClassVar[str] = "receive block {from_block_id} into {block_id}"

    logical: Int
    block_id: Int
    from_block_id: Int
    num_tokens: Int  # number of filled slots
    num_bytes: Int  # bytes of the whole block in all layers of its group

    @property
    def moved_bytes(self) -> int:
        return self.num_bytes


class Arrive(_Op, frozen=True, kw_only=True, tag="arrive"):
    """receiving -> waiting: all awaited tokens were received and count as computed."""

    seq_id: Int
    transfer: str
    queue_position: Int
    num_tokens: Int  # as in `await`
    num_bytes: Int  # bytes moved; 0 is suspicious
    link: str  # kind of link
    began: Seconds  # seconds since the trace began; a clock reading, like `timing.at`
    ended: Seconds


class TransferFailed(_Op, frozen=True, kw_only=True, tag="transfer_failed"):
    """receiving -> waiting: the transfer failed. The `free` operations of its blocks precede.

    The instance computes the tokens itself, unless the sequence's `finish` follows (kv_load_failure_policy `fail`).

    `unknown`       the sender has no such transfer
    `consumed`      the transfer was already received
    `expired`       the lease of the transfer has expired
    `stale`         the blocks were overwritten before they were read
    `out_of_range`  the sender has no such blocks
    `other_layout`  the sender has another model, dtype or block size
    `other_text`    the blocks are of other tokens, or of another salt
    `lost`          the link failed
    `late`          the link took longer than the timeout
    `gone`          the sender has ended
    `no_room`       the received blocks were freed, because no sequence could continue without them
    `step_failed`   the step that was to compute the preceding tokens failed
    """

    seq_id: Int
    transfer: str
    queue_position: Int
    reason: TransferFault
    detail: str = ""


class Hold(_Op, frozen=True, kw_only=True, tag="hold"):
    """A finished sequence holds its blocks until another instance has fetched them. Its `finish` precedes."""

    seq_id: Int
    transfer: str
    num_tokens: Int  # computed tokens
    lease: float  # seconds until the blocks are freed, unless the receiver renews the lease


class Send(_Op, frozen=True, kw_only=True, tag="send"):
    """The other instance has confirmed the transfer. The `free` operations of the sequence's blocks follow."""

    seq_id: Int
    transfer: str
    block_ids: list[Int]  # transferred blocks; the receiver had the others
    num_bytes: Int


class Expire(_Op, frozen=True, kw_only=True, tag="expire"):
    """The lease of a finished sequence's blocks expired before their transfer. Their `free` operations follow it."""

    seq_id: Int
    transfer: str


class Lost(_Op, frozen=True, kw_only=True, tag="lost"):
    """The record's instance ended unexpectedly, and its pool is lost.

    Its unfinished sequences finish (`abort`), its held sequences are released, and every block of its pool and CPU
    store becomes empty and free, in ascending order. Later records of the instance are those of its restarted process.
    """

    shown: ClassVar[str] = "instance lost"

    detail: str = ""  # cause, one sentence
    given_up: list[Int] = []  # aborted sequences whose request is not restarted on another instance


class Preempt(_Op, frozen=True, kw_only=True, tag="preempt"):
    """running -> waiting. The `swap_out` and `free` operations of the sequence's blocks precede.

    Mode `recompute`: its computed tokens are lost. Mode `swap`: they are in the CPU store and still count as computed.

    `reason` says why it was chosen among the running sequences: `last_admitted`, `worst_priority`, or `deadlock`, when
    each running sequence waited for a beam of its request that had no blocks, so all were preempted.
    """

    seq_id: Int
    queue_position: Int  # under FCFS 0, the front
    mode: PreemptionMode
    for_seq_id: Int  # sequence whose allocation found no free block
    num_computed_tokens: Int  # at the preemption
    reason: PreemptReason = "last_admitted"
    num_blocks: Int = 0  # number of freed table entries
    num_kept_tokens: Int = 0  # mode `recompute`: computed tokens that a lookup would find now
    num_recompute_tokens: Int = 0  # mode `recompute`: num_computed_tokens - num_kept_tokens
    num_bytes: Int = 0  # bytes moved to the CPU store
    swap_refused: bool = False  # swap was requested, but the CPU store was full


class Discard(_Op, frozen=True, kw_only=True, tag="discard"):
    """Strategy `none`: the step's K and V are discarded (`free` precedes), and no token counts as computed."""

    seq_id: Int


class Drop(_Op, frozen=True, kw_only=True, tag="drop"):
    """A CPU block is freed, because its swapped-out sequence has ended."""

    seq_id: Int
    cpu_block_id: Int


class Free(BlockOp, frozen=True, kw_only=True, tag="free"):
    """The last block is removed from the sequence's table, together with RELEASED entries directly before it.

    ref_count - 1. If it becomes 0, the block enters the free queue at the end `to`; otherwise `to` is None.

    `reason` is the cause: an operation that follows (`finish`, `preempt`, `swap` for a preempt by swap, `discard`,
    `take_back`, `transfer_failed`) or precedes (`sent` for a send, `expired` for an expire). None: unknown.
    """

    holds: ClassVar[int] = -1

    block_id: Int
    to: QueueEnd | None
    reason: FreeReason | None = None


class Release(BlockOp, frozen=True, kw_only=True, tag="release"):
    """A running sequence releases a block that none of its later queries can see. Its table entry becomes RELEASED.

    ref_count - 1. If it becomes 0, the block enters the free queue at the end `to`; otherwise `to` is None.

    `window`: the block is outside the sliding windows of all layers of its group. `policy`: it is outside the run's
    attention_window. `state`: a later recurrent state replaces its state. `forgotten`: every head of every layer of its
    group has forgotten all its tokens.
    """

    holds: ClassVar[int] = -1

    block_id: Int
    logical: Int
    reason: ReleaseReason
    to: QueueEnd | None


class Forget(_Op, frozen=True, kw_only=True, tag="forget"):
    """KV cache compression: KV heads of a layer forget tokens, so no query at position `at` or later sees their keys.

    For each KV head, with the highest score first: positions, scores by the run's forget_policy, and ranks by score (1
    = highest) among the tokens that may be forgotten (not the sinks, the newest, or those of a `keep`). Their blocks
    remain in the table until a `release`.
    """

    shown: ClassVar[str] = "layer {layer} forgets"

    seq_id: Int
    layer: Int
    at: Int  # computed tokens at the decision
    positions: list[list[Int]]
    scores: list[list[float]]
    ranks: list[list[Int]]
    lowest_kept: list[float | None]  # lowest score of a retained token; None if none is retained


class Keep(_Op, frozen=True, kw_only=True, tag="keep"):
    """External command: no head forgets this token from now on. Another token is forgotten instead."""

    seq_id: Int
    position: Int


class Finish(_Op, frozen=True, kw_only=True, tag="finish"):
    """The sequence is finished. Its `free` operations precede."""

    seq_id: Int
    reason: FinishReason
    detail: str = ""  # the stop string or id, or the cause of the abort


class Rank(_Op, frozen=True, kw_only=True, tag="rank"):
    """Ranking of the finished sequences of a completed request, best first. The first `num_returned` are returned.

    The score of a sample is its cumulative log probability. The score of a beam is its cumulative log probability,
    divided by (number of output tokens) ** `length_penalty`.
    """

    request_id: str
    seq_ids: list[Int]
    scores: list[float]
    num_returned: Int


class Stored(_Op, frozen=True, kw_only=True, tag="stored"):
    """A monitored server reports that this content is cached.

    Its physical block is unknown; this log assigns the content a place in the pool or outside it.
    """

    place: Int  # block id in the instance's pool; the block is empty or, with `again`, has this content
    outside: bool = False  # `place` is an index in `State.outside`, which may grow by one
    medium: str  # as reported, upper case: GPU, CPU, STORAGE, ...; "" = unreported
    block_hash: bytes  # the server's hash; an integer as 8 bytes, big-endian
    parent_hash: bytes | None  # None: the content begins a sequence, or `parent_unsaid`
    parent_unsaid: bool = False  # the parent is unreported
    token_ids: list[Int]  # empty: unreported
    group: Int | None = None  # the server's group of layers
    kind: str | None = None  # kind of that group: full_attention, sliding_window, mamba, ...
    window: Int | None = None  # window of that group, in tokens
    lora_name: str | None = None
    extra_keys: str | None = None  # further inputs of the hash (salt, images, ...), as JSON
    locality: str | None = None  # LOCAL or REMOTE, as reported
    tier: str | None = None  # name of the store within the medium, as reported
    again: bool = False  # it was cached already: a request reused it, or it is a second copy (not reported which)


class Removed(_Op, frozen=True, kw_only=True, tag="removed"):
    """A monitored server reports that this content, or one copy of it, is no longer cached."""

    place: Int  # place of the content
    outside: bool = False
    medium: str
    block_hash: bytes
    group: Int | None = None
    tier: str | None = None
    num_left: Int = 0  # number of remaining copies; if > 0, the content remains at the place


class KnownSince(_Op, frozen=True, kw_only=True, tag="known_since"):
    """Point from which a monitored server's reports are known.

    Every place of the instance becomes empty. `attached`: monitoring begins. `restarted`: the message numbers
    restarted, so the cache is empty. `gap`: messages were lost and cannot be replayed. `cleared`: the server cleared
    its GPU cache; it does not report whether content elsewhere remains. `continued`: the previous log was too long;
    the records that follow repeat its state.
    """

    epoch: Int  # epoch of the instance, from 0; each restart begins a new one
    sequence: Int  # number of the first known message
    reason: KnownReason
    num_missed: Int = 0  # number of messages lost in a gap


Op = (
    Submit
    | Lookup
    | LookupExternal
    | Admit
    | Defer
    | Reserve
    | Requeue
    | Allocate
    | Evict
    | Share
    | Fork
    | Copy
    | Cache
    | Write
    | Sample
    | Draft
    | Verify
    | TakeBack
    | Choose
    | Adjust
    | SwapOut
    | SwapIn
    | Load
    | Store
    | Await
    | Receive
    | Arrive
    | TransferFailed
    | Hold
    | Send
    | Expire
    | Lost
    | Preempt
    | Discard
    | Drop
    | Free
    | Release
    | Forget
    | Keep
    | Finish
    | Rank
    | Stored
    | Removed
    | KnownSince
)
