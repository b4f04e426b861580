"""The ordered operations of one record: everything that changes the state, in the order in which it happened.

`apply.apply` needs nothing but these to rebuild block tables, ref counts, the free queue and every sequence; whatever
else a record holds (batch, outputs, timing, work, arrays) explains an operation and changes no state.

Where vLLM has an event for the same thing, the projection is: `cache` -> BlockStored, `evict` -> BlockRemoved.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from engine.trace.limits import Int, Seconds

FinishReason = Literal["stop", "length", "abort", "dropped"]  # dropped: a beam that others beat
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
RELEASED = -1  # in a block table: the block that stood here was released while the sequence runs
Setting = str | int | float | bool | None | list[str | int] | dict[str, float]


class _Op(Struct, frozen=True, gc=False, kw_only=True, tag_field="type", forbid_unknown_fields=False):
    """Base of all operations; on the wire a map with a `type` key.

    What readers count and show of an operation without knowing its kind stands with it.
    """

    shown: ClassVar[str] = ""  # its name on a timeline, with its fields in braces; "": not shown there

    @property
    def moved_bytes(self) -> int:
        """Bytes that it moves between the pool and what is outside it."""
        return 0


class BlockOp(_Op, frozen=True, kw_only=True):
    """Base of the operations on one block of one sequence."""

    holds: ClassVar[int] = 0  # block table entries that the sequence gains

    seq_id: Int


class Submit(_Op, frozen=True, kw_only=True, tag="submit"):
    """A request enters the waiting queue."""

    seq_id: Int
    queue_position: Int  # index in the waiting queue: the tail under FCFS, else by priority, ties by arrival
    request_id: str
    prompt_token_ids: list[Int]
    prompt_token_bytes: list[bytes]  # what each token stands for; may be a fragment of a UTF-8 character
    max_tokens: Int
    priority: Int = 0
    cache_salt: str | None = None
    sampling: dict[str, Setting] = {}
    client: str | None = None  # the sender, where several share an engine
    waited: Seconds = (
        0.0  # seconds since it came to the server: read, tokenized, among its client's requests; a clock reading
    )
    transfer: str | None = None  # the name under which its keys and values move between instances
    kv_role: KVRole | None = None  # whether they go from here, or come here


class Lookup(_Op, frozen=True, kw_only=True, tag="lookup"):
    """Prefix-cache lookup of a sequence's leading blocks.

    `hit`: num_hit_tokens > 0. `miss`: full blocks were looked up and the first is not cached. `too_short`: the prompt
    has no full block besides its last token (of n tokens at most n-1 can hit). `disabled`: prefix caching is off.
    `skipped`: prompt log probabilities are requested, so every prompt token must be computed.

    `reason` says why the hits end where they do; None = everything that may hit did (or there was no lookup). B is the
    block size, h the number of blocks that hit, s = num_shared_tokens; `closest` is the earlier sequence of the same
    salt with the longest common prefix, among the most recently admitted ones (PrefixMemory says how many).

    `evicted`           the next block was cached: `lost_block_id` held it until record `evicted_in`, when sequence
                        `evicted_for` took that block
    `shared_too_short`  the closest shares s < B tokens: not a block
    `differs`           the first token that differs from the closest's is at position s
    `earlier_ended`     the closest has no token at position s: its last block was never full
    `other_salt`        the closest holds the next block's tokens, under another salt
    `no_state`          keys of the first s tokens are cached, but no recurrent state after the hits
    `not_computed`      the closest has these tokens, but had not computed them
    `nothing_shared`    no remembered sequence begins with the same token
    `forgotten`         the sequence that had the next block is no longer remembered
    """

    seq_id: Int
    verdict: LookupVerdict
    num_tokens: Int  # tokens of the sequence, the queried length
    num_hit_tokens: Int  # a multiple of block_size
    block_ids: list[Int]  # the blocks that hit, in logical order
    reason: LookupReason | None = None
    closest_seq_id: Int | None = None  # itself, if it was here before a preemption
    num_shared_tokens: Int = 0  # leading tokens equal to the closest's
    lost_block_id: Int | None = None
    evicted_in: Int | None = None  # record index
    evicted_for: Int | None = None  # seq_id


class LookupExternal(_Op, frozen=True, kw_only=True, tag="lookup_external"):
    """Lookup in the external store for the blocks after the prefix-cache hits (a connector, as vLLM names it).

    `load`: the blocks found are loaded, because that takes less time than computing them. `compute`: they are found,
    and computing them is faster. `miss`: nothing useful is found. The two times are estimates from the loads and
    prefills on this machine so far, and clock readings as such; None: not measured yet, in which case the blocks found
    are loaded.

    `media[i]` is the tier of block i after the hits: the slowest, if several groups of layers have content.
    """

    seq_id: Int
    verdict: ExternalVerdict
    num_tokens: Int  # queried: after the hits, whole blocks, without the last token
    num_found_tokens: Int  # of these, there
    media: list[Medium] = []  # of each block found
    num_bytes: Int = 0  # that loading them moves
    load_seconds: float | None = None
    compute_seconds: float | None = None


class Admit(_Op, frozen=True, kw_only=True, tag="admit"):
    """waiting -> running. Tokens that need no computation: those whose blocks hit, those that come back by `swap_in`,
    those whose blocks come from outside the pool by `load`.

    What is swapped in is not looked up: either its number is 0, or the two others are.
    """

    seq_id: Int
    num_cached_tokens: Int
    resumed: bool  # admitted again after a preemption
    num_swapped_tokens: Int = 0
    num_external_tokens: Int = 0  # they follow those that hit


class Defer(_Op, frozen=True, kw_only=True, tag="defer"):
    """The head of the waiting queue was not admitted in this step, and why: it needed more than was available.

    `step_preempted` is about order, not room: blocks were just taken from a running sequence, so none is admitted,
    whether the needed blocks are available now or not. `fragmented`, under strategy `first_fit` only: enough blocks
    were free, but not in one piece; `available` is the largest hole.
    """

    seq_id: Int
    reason: DeferReason
    needed: Int  # in the unit of the reason: sequences, tokens, or blocks
    available: Int
    num_free: Int | None = None  # of `fragmented`: free blocks, those of all holes together


class Reserve(BlockOp, frozen=True, kw_only=True, tag="reserve"):
    """Strategy `first_fit`: the sequence gets one piece of the region, for its prompt and all tokens it may generate.

    The piece is the beginning of the first hole with so many blocks. Its blocks go to the head of the free queue, in
    order, from where the `allocate` operations that follow take them.
    """

    shown: ClassVar[str] = "reserve {num_blocks} blocks from {block_id}"

    block_id: Int  # the first
    num_blocks: Int
    hole_blocks: Int  # of the hole that the piece is cut from


class Requeue(_Op, frozen=True, kw_only=True, tag="requeue"):
    """Free blocks move to the head of the free queue, in this order.

    Recorded for another engine only: it frees several blocks without a hash together, the last of a table at the head.
    This engine frees blocks one at a time, each to the head.
    """

    block_ids: list[Int]


class Allocate(BlockOp, frozen=True, kw_only=True, tag="allocate"):
    """The block at the head of the free queue becomes the sequence's next logical block (ref_count 1).

    `reason` says what the block is for; None: the log does not say.

    `admission`   the first tokens of a sequence that was waiting
    `resume`      the same of a sequence that was preempted before
    `chunk`       the next chunk of its prompt, or of tokens that it computes again after a preemption
    `append`      the token that was sampled last is the first of a new block
    `draft`       draft tokens reach beyond the sequence's last block; `draft` follows
    `recompute`   strategy `none` computes all tokens again in every step
    `copy`        the sequence is about to write to a block that others hold too; `copy` follows
    `swap_in`     content comes back from the CPU store; `swap_in` follows
    `load`        content comes from outside the pool; `load` follows
    `receive`     content comes from another instance; `await` follows, and its `receive` in a later record
    """

    holds: ClassVar[int] = 1

    block_id: Int
    logical: Int  # index in the sequence's block table
    reason: AllocateReason | None = None


class Evict(_Op, frozen=True, kw_only=True, tag="evict"):
    """A block's hash leaves the prefix cache: it is about to be reallocated, or what it promised was never written.

    The residency, in steps, as vLLM's metrics have it in seconds (kv_block_lifetime, kv_block_idle_before_evict,
    kv_block_reuse_gap): an access is the allocation or a hit.
    """

    shown: ClassVar[str] = "evict block {block_id}"

    block_id: Int
    block_hash: bytes
    seq_id: Int | None = None  # whose allocation takes the block, or whose promise it was; None: it was not loaded
    lifetime_steps: Int = 0  # since the allocation
    idle_steps: Int = 0  # since the last access
    num_hits: Int = 0
    reuse_gap_steps: list[Int] = []  # between one hit and the next, the last few


class Share(BlockOp, frozen=True, kw_only=True, tag="share"):
    """A prefix-cache hit: the block joins the sequence's table, ref_count + 1; `revived` from the free queue or not."""

    holds: ClassVar[int] = 1

    block_id: Int
    logical: Int
    revived: bool


class Fork(_Op, frozen=True, kw_only=True, tag="fork"):
    """The child gets the parent's tokens and table; every block's ref_count + 1, the partial tail too.

    `sample`: another sample of the same prompt, with a seed of its own. `beam`: a second continuation of one beam.
    """

    parent_seq_id: Int
    seq_id: Int
    request_id: str
    reason: ForkReason = "sample"
    seed: int | None = None  # of a sample: what its draws are seeded with


class Copy(BlockOp, frozen=True, kw_only=True, tag="copy"):
    """Copy-on-write: before writing to a shared block the sequence got a copy. Follows the `allocate` of `dst`."""

    shown: ClassVar[str] = "copy block {src} to {dst}"

    logical: Int
    src: Int
    dst: Int


class Cache(_Op, frozen=True, kw_only=True, tag="cache"):
    """A full block got its hash and can be found by others."""

    seq_id: Int
    block_id: Int
    logical: Int
    block_hash: bytes
    parent_hash: bytes | None
    token_ids: list[Int]  # exactly block_size ids


class Write(_Op, frozen=True, kw_only=True, tag="write"):
    """Keys and values of positions [start, start + num_tokens) were written, all layers; they count as computed."""

    seq_id: Int
    start: Int
    num_tokens: Int


class Sample(_Op, frozen=True, kw_only=True, tag="sample"):
    """A token was chosen and appended to the sequence. Its K and V do not exist yet: they are written a step later."""

    seq_id: Int
    token_id: Int
    sampled_token_id: Int | None = None  # what the sampler took, where a `choose` had settled another; None: this one


class Draft(_Op, frozen=True, kw_only=True, tag="draft"):
    """Tokens that the sequence might continue with: this step computes them behind its last token.

    `ngram`: its last `match_length` tokens stood at position `match_start` before, and these followed them there.
    `draft_model`: a smaller model continued the sequence.
    """

    shown: ClassVar[str] = "draft tokens of sequence {seq_id}"

    seq_id: Int
    token_ids: list[Int]
    token_bytes: list[bytes]
    method: DraftMethod
    match_start: Int | None = None
    match_length: Int = 0
    num_computed_tokens: Int = 0  # by the draft model, for this proposal
    num_bytes: Int = 0  # of keys and values that the draft model holds for the sequence


class Verify(_Op, frozen=True, kw_only=True, tag="verify"):
    """The first `num_accepted` drafts of the step are what was sampled at their positions. Their `sample` operations
    come before, and unless the text ends there one more: the token after them, in the place of a rejected draft.
    """

    seq_id: Int
    num_drafted: Int
    num_accepted: Int


class TakeBack(_Op, frozen=True, kw_only=True, tag="take_back"):
    """Keys and values of rejected drafts, positions [start, start + num_tokens), no longer count as computed.

    The `free` operations of blocks that only they needed come before. What stays in a kept block is overwritten.
    """

    shown: ClassVar[str] = "take back {num_tokens} drafts"

    seq_id: Int
    start: Int
    num_tokens: Int


class Choose(_Op, frozen=True, kw_only=True, tag="choose"):
    """From outside: the token at `position` of the sequence will be this one, whatever is sampled there.

    A later choice for the same position replaces it. The sampler draws all the same, so later draws are what they were.
    """

    seq_id: Int
    position: Int
    token_id: Int
    token_bytes: bytes


class Adjust(_Op, frozen=True, kw_only=True, tag="adjust"):
    """From outside: what a request's sequences still sample, they sample with these parameters.

    Their generators go on where they are, unless `seed` is another one.
    """

    request_id: str
    seq_ids: list[Int]  # those that wait or run
    max_tokens: Int
    sampling: dict[str, Setting]  # every field


class _Swap(BlockOp, frozen=True, kw_only=True):
    """A block's content moves between the pool and the CPU store."""

    logical: Int
    block_id: Int
    cpu_block_id: Int
    num_bytes: Int  # moved: the whole block, all layers of its group

    @property
    def moved_bytes(self) -> int:
        return self.num_bytes


class SwapOut(_Swap, frozen=True, kw_only=True, tag="swap_out"):
    """Preemption by swap: a block's content goes to a block of the CPU store. The `free` operations follow."""

    shown: ClassVar[str] = "swap out block {block_id}"


class SwapIn(_Swap, frozen=True, kw_only=True, tag="swap_in"):
    """The content comes back into the block that was just allocated for it; the CPU block is free again."""

    shown: ClassVar[str] = "swap in block {block_id}"


class Load(BlockOp, frozen=True, kw_only=True, tag="load"):
    """The content of a full block comes from outside the pool, where a `store` had put it, perhaps of another run.

    It goes into the block that was just allocated for it; the store keeps its copy.
    """

    shown: ClassVar[str] = "load block {block_id} from {medium}"

    logical: Int
    block_id: Int
    block_hash: bytes
    medium: Medium
    num_bytes: Int  # moved: the whole block, all layers of its group

    @property
    def moved_bytes(self) -> int:
        return self.num_bytes


class Store(_Op, frozen=True, kw_only=True, tag="store"):
    """A full block's content was copied to the store outside the pool, which had it not; the pool keeps its block."""

    shown: ClassVar[str] = "store block {block_id} in {medium}"

    block_id: Int
    block_hash: bytes
    medium: Medium  # the fastest tier that takes it; slower ones have it from there
    num_bytes: Int

    @property
    def moved_bytes(self) -> int:
        return self.num_bytes


class Await(_Op, frozen=True, kw_only=True, tag="await"):
    """waiting -> receiving: the sequence has blocks (`allocate`, reason `receive`) for what another instance computed.

    Its hits, the `num_cached_tokens` leading tokens, are here already. In vLLM: WAITING_FOR_REMOTE_KVS.
    """

    seq_id: Int
    transfer: str
    num_cached_tokens: Int
    num_tokens: Int  # that are to come after those


class Receive(BlockOp, frozen=True, kw_only=True, tag="receive"):
    """A block's content arrived from block `from_block_id` of another instance; `arrive` follows.

    The last block may be filled in part.
    """

    shown: ClassVar[str] = "receive block {from_block_id} into {block_id}"

    logical: Int
    block_id: Int
    from_block_id: Int
    num_tokens: Int  # slots that are filled
    num_bytes: Int  # moved: the whole block, all layers of its group

    @property
    def moved_bytes(self) -> int:
        return self.num_bytes


class Arrive(_Op, frozen=True, kw_only=True, tag="arrive"):
    """receiving -> waiting: everything that was awaited is here, and counts as computed."""

    seq_id: Int
    transfer: str
    queue_position: Int
    num_tokens: Int  # as awaited
    num_bytes: Int  # moved; 0: nothing was, which is worth a look
    link: str  # what they moved over
    began: Seconds  # seconds since the trace began; clock readings, as `timing.at`
    ended: Seconds


class TransferFailed(_Op, frozen=True, kw_only=True, tag="transfer_failed"):
    """receiving -> waiting: the transfer failed or is unusable. The `free` operations of its blocks come before.

    It computes its tokens itself, unless its `finish` follows (kv_load_failure_policy `fail`).

    `unknown`       the sender knows no such transfer
    `consumed`      it was already received once
    `expired`       its lease has expired
    `stale`         the blocks had other content by the time they were read
    `out_of_range`  the sender has no such blocks
    `other_layout`  another model, dtype or block size at the sender
    `other_text`    they are keys and values of other tokens, or of another salt
    `lost`          the link failed
    `late`          the link took longer than the timeout
    `gone`          the sender ended
    `no_room`       they arrived and were freed: no sequence could continue, for lack of blocks (it waited already)
    `step_failed`   the tokens before them were not computed: the step that had promised them failed
    """

    seq_id: Int
    transfer: str
    queue_position: Int
    reason: TransferFault
    detail: str = ""


class Hold(_Op, frozen=True, kw_only=True, tag="hold"):
    """A finished sequence keeps its blocks, for an instance that will ask for them. Its `finish` comes before."""

    seq_id: Int
    transfer: str
    num_tokens: Int  # computed
    lease: float  # seconds until the blocks are freed, unless the receiver renews the lease


class Send(_Op, frozen=True, kw_only=True, tag="send"):
    """The other instance has said that it has them. The `free` operations of the sequence's blocks follow."""

    seq_id: Int
    transfer: str
    block_ids: list[Int]  # that it took; the others it had
    num_bytes: Int


class Expire(_Op, frozen=True, kw_only=True, tag="expire"):
    """The lease of a finished sequence's blocks expired before their transfer. Their `free` operations follow."""

    seq_id: Int
    transfer: str


class Lost(_Op, frozen=True, kw_only=True, tag="lost"):
    """The record's instance ended unexpectedly, and its pool with it.

    Its unfinished sequences finish (`abort`), its held sequences are released, and every block of the pool and of the
    CPU store is empty and free, in ascending order. Later records of that instance belong to a restarted one.
    """

    shown: ClassVar[str] = "instance lost"

    detail: str = ""  # how, one sentence
    given_up: list[Int] = []  # of these, the sequences whose request is not restarted elsewhere, with or without tokens


class Preempt(_Op, frozen=True, kw_only=True, tag="preempt"):
    """running -> waiting. The `swap_out` and `free` operations of its blocks come before.

    By recompute its computed tokens are lost; by swap they wait in the CPU store and still count as computed.

    `reason` says why it was chosen: `last_admitted` of the running ones, `worst_priority` of them, or `deadlock`:
    every running sequence was waiting for a beam of its request that had no room, so all of them went.
    """

    seq_id: Int
    queue_position: Int  # 0, the front, under FCFS
    mode: PreemptionMode
    for_seq_id: Int  # the sequence whose allocation found no free block
    num_computed_tokens: Int  # when it went
    reason: PreemptReason = "last_admitted"
    num_blocks: Int = 0  # table entries that it gave back
    num_kept_tokens: Int = 0  # by recompute: of the computed tokens, those that a lookup would still find now
    num_recompute_tokens: Int = 0  # num_computed_tokens - num_kept_tokens by recompute, 0 by swap
    num_bytes: Int = 0  # moved to the CPU store
    swap_refused: bool = False  # a swap was wanted, but the CPU store had no room for it


class Discard(_Op, frozen=True, kw_only=True, tag="discard"):
    """Strategy `none`: the step's K and V are thrown away (`free` comes before), nothing counts as computed."""

    seq_id: Int


class Drop(_Op, frozen=True, kw_only=True, tag="drop"):
    """A swapped-out sequence ends: its CPU block is free again, the content gone."""

    seq_id: Int
    cpu_block_id: Int


class Free(BlockOp, frozen=True, kw_only=True, tag="free"):
    """The sequence gives up its last block: ref_count - 1; at 0 it enters the free queue at `to`, else None.

    RELEASED entries that are now the last ones of its table go with it.

    `reason` names the operation that makes it give up its blocks and that follows: its `finish` (which says how it
    ended), its `preempt` by recompute, `swap` for the same by swap, its `discard` or its `take_back`.
    None: the log does not say.
    """

    holds: ClassVar[int] = -1

    block_id: Int
    to: QueueEnd | None
    reason: FreeReason | None = None


class Release(BlockOp, frozen=True, kw_only=True, tag="release"):
    """A running sequence releases a block that none of its later queries can see; its table entry becomes RELEASED.

    Table entries before and after keep their places. ref_count - 1; at 0 the block enters the free queue at `to`, else
    None. `window`: every layer of the model has a sliding window, and the block fell out of the widest. `policy`: the
    run's attention_window left it behind. `forgotten`: every head of every layer of its group forgot all its tokens
    (`forget`).
    """

    holds: ClassVar[int] = -1

    block_id: Int
    logical: Int
    reason: ReleaseReason
    to: QueueEnd | None


class Forget(_Op, frozen=True, kw_only=True, tag="forget"):
    """KV heads of a layer forget tokens: no query at position `at` or later sees their keys (KV cache compression).

    By KV head, the best of the forgotten first: their positions, the scores that the run's forget_policy gave them,
    and their ranks by score, 1 = the highest, among the tokens that could go (not the sinks, the newest, or those of a
    `keep`). The block that holds them stays until a `release` says otherwise.
    """

    shown: ClassVar[str] = "layer {layer} forgets"

    seq_id: Int
    layer: Int
    at: Int  # computed tokens when it was decided
    positions: list[list[Int]]
    scores: list[list[float]]
    ranks: list[list[Int]]
    lowest_kept: list[float | None]  # score of the last token that stayed among them; None: none did


class Keep(_Op, frozen=True, kw_only=True, tag="keep"):
    """From outside: no head forgets this token of the sequence from here on. Another one goes in its place."""

    seq_id: Int
    position: Int


class Finish(_Op, frozen=True, kw_only=True, tag="finish"):
    """The sequence is done (its `free` operations come before)."""

    seq_id: Int
    reason: FinishReason
    detail: str = ""  # the stop string or id that ended it, or why it was aborted


class Rank(_Op, frozen=True, kw_only=True, tag="rank"):
    """A request with several sequences is done: its finished ones, best first, of which the first `num_returned` count.

    The score of a sample is its cumulative log probability; of a beam that, divided by its number of output tokens
    to the power of `length_penalty`.
    """

    request_id: str
    seq_ids: list[Int]
    scores: list[float]
    num_returned: Int


class Stored(_Op, frozen=True, kw_only=True, tag="stored"):
    """A monitored server reported that this content is cached.

    Its physical block is unknown. The content has a place in this log: in the pool, or outside it.
    """

    place: Int  # in the instance's pool, where a block id would be: it is empty, or has this content (`again`)
    outside: bool = False  # it is a place in `State.outside`, which it may lengthen by one
    medium: str  # as the server said it, in capitals: GPU, CPU, STORAGE, ...; "" = it did not say
    block_hash: bytes  # the server's; of a number its 8 bytes, big-endian
    parent_hash: bytes | None  # None: a sequence begins with this content, or `parent_unsaid`
    parent_unsaid: bool = False  # the server did not say what comes before it
    token_ids: list[Int]  # empty: the server did not say
    group: Int | None = None  # the server's group of layers
    kind: str | None = None  # of that group: full_attention, sliding_window, mamba, ...
    window: Int | None = None  # tokens that it sees
    lora_name: str | None = None
    extra_keys: str | None = None  # what else the hash covers (salt, images, ...), as JSON
    locality: str | None = None  # LOCAL or REMOTE: where the medium is, as the server said it
    tier: str | None = None  # which of several stores of that medium, as the server calls it
    again: bool = False  # it was there already: a request reused it, or there is a copy; which, the server did not say


class Removed(_Op, frozen=True, kw_only=True, tag="removed"):
    """A monitored server reported that this content, or one copy of it, is no longer cached."""

    place: Int  # where it stood
    outside: bool = False
    medium: str
    block_hash: bytes
    group: Int | None = None
    tier: str | None = None
    num_left: Int = 0  # copies that it still has: then the place keeps the content


class KnownSince(_Op, frozen=True, kw_only=True, tag="known_since"):
    """Point from which a monitored server's reports are known; nothing before it is.

    Every place of the instance is empty. `attached`: monitoring begins. `restarted`: the message numbers restarted, so
    the cache is empty. `gap`: messages were lost and can no longer be replayed. `cleared`: the server emptied its GPU
    cache; it does not report whether content elsewhere remains. `continued`: the previous log grew too long; the
    records that follow repeat its state.
    """

    epoch: Int  # of this instance, from 0; a restart begins the next
    sequence: Int  # the number of the first message that is known
    reason: KnownReason
    num_missed: Int = 0  # messages of a gap


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
