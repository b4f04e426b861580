"""Structs of a trace: the header, and the records, each with an optional capture (arrays)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from engine.trace.limits import Int, Seconds
from engine.trace.operations import Medium, Op

FORMAT = "kvtrace"
VERSION = 1

Phase = Literal["prefill", "decode"]
RecordKind = Literal["submit", "step", "abort", "adjust", "transfer", "lost", "observed"]
Unknown = Literal[
    "ids", "ref_counts", "copies", "requests", "partial_blocks", "preemptions", "steps", "arrays", "before", "model",
    "texts",
]  # fmt: skip
NotWatched = Literal["arrays", "logprobs", "texts", "num_params", "work"]
InstanceRole = Literal["prefill", "decode", "mixed"]
LayerKeeps = Literal["keys", "state", "both", "nothing"]


class HeadPattern(Struct, frozen=True, kw_only=True):
    """Attention pattern of a head, measured on held-out text."""

    pattern: str  # previous_token, clause_start, parallel_clause, last_punctuation, first_token, itself, induction
    layer: Int
    head: Int  # query head
    mean_weight: float  # mean weight of its queries on that key
    uniform: float  # mean weight that uniform attention would have
    queries: Int  # number of measured queries


class ModelFacts(Struct, frozen=True, kw_only=True):
    """Facts of the model, for trace, accounting and page. Sizes are counts, not bytes."""

    name: str
    architecture: str  # Hugging Face class name
    num_params: Int
    num_layers: Int  # layers with keys and values; `layer_kinds` has all layers
    hidden_size: Int
    intermediate_size: Int
    num_heads: Int  # query heads, Hq
    num_kv_heads: Int  # Hkv, as stored in the cache or computed from latents
    head_dim: Int  # D, size of queries and keys
    v_head_dim: Int  # Dv, size of values
    vocab_size: Int
    max_position: Int
    dtype: str
    sliding_windows: list[Int | None]  # per layer; None = full attention
    scalings: list[float] = []  # per layer: score = q · k * scaling; empty = unknown
    softcaps: list[float | None] = []  # per layer: score = c * tanh(score / c); None = no softcap
    sinks: list[list[float] | None] = []  # per layer: an extra softmax logit per query head; None = none
    tie_word_embeddings: bool = False
    num_active_params: Int | None = None  # mixture of experts: parameters used per token; None = all
    num_experts: Int = 0  # per layer; 0 = none, or unknown
    num_experts_per_tok: Int = 0
    bytes_per_weight: float | None = None  # mean over the layers and the output projection; None = size of `dtype`
    rounded_to: str | None = None  # format to which linear layers were rounded at loading; None = not rounded
    # Cached data of each layer, in the model's order: keys and values, a state of constant size, both or nothing;
    # empty = keys and values in all layers. All other layer numbers count only layers with keys.
    layer_kinds: list[LayerKeeps] = []
    state_bytes: Int = 0  # bytes of one sequence's state in all layers
    # MLA: size of the latent vector cached per token and layer, from which keys and values of all heads are computed,
    # and size of its rotated key part, shared by all heads; 0 = keys and values are cached.
    latent_dim: Int = 0
    rope_dim: Int = 0
    layer_shapes: list[list[Int]] = []  # per layer: [Hkv, D, Dv]; empty = the sizes above in all layers
    heads: list[HeadPattern] = []  # known patterns, clearest first; empty = not measured

    @property
    def group_size(self) -> int:
        """Number of query heads that share one KV head (1 = MHA, num_heads = MQA)."""
        return self.num_heads // self.num_kv_heads

    def kv_shape(self, layer: int) -> tuple[int, int, int]:
        """Return Hkv, D and Dv of a layer."""
        if not self.layer_shapes:
            return self.num_kv_heads, self.head_dim, self.v_head_dim
        num_kv_heads, head_dim, v_head_dim = self.layer_shapes[layer]
        return num_kv_heads, head_dim, v_head_dim


class TokenizerFacts(Struct, frozen=True, kw_only=True):
    """Facts of the tokenizer."""

    name: str
    vocab_size: Int
    eos_token_ids: list[Int]


class Roofs(Struct, frozen=True, kw_only=True):
    """Measured peak rates of a machine (the roofs of a roofline)."""

    dtype: str  # dtype of the matrices, which is the model's
    num_threads: Int
    measured_at: str  # ISO 8601, UTC; a clock reading
    flops_per_second: float  # median of `matmul_runs` products of two square matrices of `matmul_size`
    matmul_size: Int
    matmul_runs: Int
    bytes_per_second: float  # median of `copy_runs` copies of an array of `copy_bytes`, each byte read and written
    copy_bytes: Int
    copy_runs: Int


class Machine(Struct, frozen=True, kw_only=True):
    """Machine of the run."""

    device: str
    processor: str
    num_threads: Int
    versions: dict[str, str]
    roofs: Roofs | None = None  # None: not measured before the log began


class BlockGroup(Struct, frozen=True, kw_only=True):
    """Group of layers with the same attention span, and the block pool that they share."""

    instance: Int = 0  # owner of the pool: index in the header's instances
    layers: list[Int]
    first_block: Int  # block ids are [first_block, first_block + num_blocks)
    num_blocks: Int
    window: Int | None = None  # sliding window in keys; None = full attention
    sinks: Int = 0  # leading tokens that stay visible in addition to the window
    kv_bytes_per_token: Int  # bytes in all its layers; 0 for a group of states
    # > 0: bytes of a block, which holds one sequence's state in all layers that have one, and no keys. The block of a
    # table entry has the state after the last computed token that the entry covers.
    state_bytes: Int = 0
    checkpoint: Int = 0  # tokens; a state is stored at each multiple of it


class InstanceFacts(Struct, frozen=True, kw_only=True):
    """Engine of a run with several engines, which serve the same model, each with its own pool and scheduler."""

    name: str
    role: InstanceRole  # prefill, decode, or mixed (both)
    num_threads: Int = 0  # compute threads; 0: unknown


class Simulated(Struct, frozen=True, kw_only=True):
    """Simulated run: tokens are placeholders, and clock readings are computed from the assumed cost of each step."""

    cost: str  # source of the step times
    seed: Int = 0


class Observed(Struct, frozen=True, kw_only=True):
    """Monitored server: only its reports are known."""

    source: str  # server, and its version if known
    events: list[str] = []  # event endpoint of each instance
    # Unreported fields. Required ones have a meaningless value: see "observed" in docs/reference/trace-format.md.
    unknown: list[Unknown]


class Watched(Struct, frozen=True, kw_only=True):
    """Run of another engine, recorded inside its process, with the same operations as a run of this engine."""

    source: str  # engine and version
    unknown: list[NotWatched]  # unreported values; required fields have a meaningless value
    first_block_id: Int = 0  # that engine's id of block 0 of this log


FINISHED_KEPT = 1000  # `Header.finished_kept` of this program's logs, to bound a server's memory


class Header(Struct, frozen=True, kw_only=True):
    """First frame of a trace."""

    format: str = FORMAT
    version: Int = VERSION
    generator: str  # program and version that wrote it
    created: str  # ISO 8601, UTC; a clock reading
    model: ModelFacts
    tokenizer: TokenizerFacts
    engine: dict[str, str | int | float | bool | None]  # EngineConfig, every field resolved
    kv_bytes_per_token: Int  # accounting.kv_bytes_per_token(model), all layers
    machine: Machine
    # In the order of instances, and within an instance by descending span; empty = one group of all layers, with
    # engine.num_blocks blocks.
    block_groups: list[BlockGroup] = []
    instances: list[InstanceFacts] = []  # empty = one instance
    simulated: Simulated | None = None  # None = computed by a model
    observed: Observed | None = None  # None = not a monitored server
    watched: Watched | None = None  # None = a run of this engine
    finished_kept: Int | None = None  # number of latest finished sequences that the state retains; None = all


class BatchEntry(Struct, frozen=True, gc=False, kw_only=True):
    """Tokens of a sequence that a step computes. Entries are in packed order."""

    seq_id: Int
    phase: Phase
    start: Int  # position of the first computed token
    token_ids: list[Int]
    context_len: Int  # start + len(token_ids): keys visible to the last of these tokens under full attention
    samples: bool  # whether the step samples a token for it (False for a prefill chunk that is not the last)


class Candidate(Struct, frozen=True, gc=False):
    """Candidate token at a position."""

    token_id: Int
    token_bytes: bytes
    logprob: float  # natural log, in the raw distribution (before temperature, filters and penalties)


class FullCacheOutput(Struct, frozen=True, gc=False, kw_only=True):
    """Prediction with the full cache at the position of an output, for the same text (`forget_compare`)."""

    divergence: float  # KL divergence from the full-cache distribution to the output's, nats, raw distributions
    token_id: Int  # most probable token with the full cache
    token_bytes: bytes
    own_token_id: Int  # most probable token of the output's distribution
    logprob: float  # log probability of the output's token with the full cache


class Output(Struct, frozen=True, gc=False, kw_only=True):
    """Token sampled in this step."""

    seq_id: Int
    token_id: Int
    token_bytes: bytes  # bytes of the token; may be a fragment of a UTF-8 character
    text: str  # text completed by this token ("" while a character is incomplete)
    logprob: float
    top: list[Candidate]  # most probable first
    full: FullCacheOutput | None = None  # None: not compared


class PromptLogprob(Struct, frozen=True, gc=False, kw_only=True):
    """Log probability of a prompt token, given the tokens before it.

    The step that computes the position before it records it. If the request has `prompt_logprobs`, each position from 1
    on occurs once in the trace, in order.
    """

    seq_id: Int
    position: Int  # position of the token in the prompt, 1 or more
    token_id: Int
    logprob: float  # natural log, raw distribution
    top: list[Candidate]  # most probable first


class Timing(Struct, frozen=True, gc=False, kw_only=True):
    """Clock readings in seconds, the only part of a record that differs between two runs of the same inputs."""

    at: Seconds  # end of the record, in seconds since the trace began
    schedule: Seconds = 0.0
    draft: Seconds = 0.0  # part of `schedule`: proposing draft tokens, including a draft model's steps
    prepare: Seconds = 0.0
    forward: Seconds = 0.0
    sample: Seconds = 0.0
    transfer: Seconds = 0.0  # part of `prepare` and `sample`: moving content between the pool and memory outside it
    tokenize: Seconds = 0.0  # tokenizing the prompt before a submission
    detokenize: Seconds = 0.0  # part of `sample`: detokenizing, and the search for stop strings
    compiled: bool = False  # the forward pass ran compiled code, which becomes ready at an unpredictable time
    threads: Int = 0  # threads of the forward pass, fewer if other programs use the machine's cores; 0: all


class Memory(Struct, frozen=True, gc=False, kw_only=True):
    """Pool usage after the record (`state.memory_figures`), summed over all groups of layers.

    A block id stands for the block in every layer of its group.
    """

    num_blocks: Int
    block_size: Int
    blocks_held: Int  # ref_count > 0
    blocks_cached: Int  # ref_count 0 with a hash: free, but reusable
    blocks_free: Int  # ref_count 0 without a hash
    tokens_held: Int  # slots of held blocks with computed K and V; each physical slot counts once
    tokens_logical: Int  # the same slots, counted once per sequence whose table has them; larger if blocks are shared
    bytes_held: Int  # blocks_held * block_size * kv_bytes_per_token (of the group), or blocks_held * state_bytes
    bytes_used: Int  # tokens_held * kv_bytes_per_token; for a group of states bytes_held
    bytes_cached: Int  # blocks_cached * block_size * kv_bytes_per_token, or blocks_cached * state_bytes
    swap_blocks: Int = 0  # blocks of the CPU store
    swap_blocks_held: Int = 0  # blocks of the CPU store with content of preempted sequences
    state_blocks_held: Int = 0  # held blocks with states, which have no slots

    @classmethod
    def counted(
        cls,
        *,
        num_blocks: int,
        block_size: int,
        blocks_held: int,
        blocks_cached: int,
        tokens_held: int,
        tokens_logical: int,
        kv_bytes_per_token: int,
        state_bytes: int = 0,
        swap_blocks: int = 0,
        swap_blocks_held: int = 0,
    ) -> Memory:
        """Compute the figures from the counts. `state_bytes` > 0: the blocks hold states, and no tokens."""
        bytes_per_block = state_bytes or block_size * kv_bytes_per_token
        return cls(
            num_blocks=num_blocks,
            block_size=block_size,
            blocks_held=blocks_held,
            blocks_cached=blocks_cached,
            blocks_free=num_blocks - blocks_held - blocks_cached,
            tokens_held=0 if state_bytes else tokens_held,
            tokens_logical=0 if state_bytes else tokens_logical,
            bytes_held=blocks_held * bytes_per_block,
            bytes_used=blocks_held * state_bytes if state_bytes else tokens_held * kv_bytes_per_token,
            bytes_cached=blocks_cached * bytes_per_block,
            swap_blocks=swap_blocks,
            swap_blocks_held=swap_blocks_held,
            state_blocks_held=blocks_held if state_bytes else 0,
        )

    @classmethod
    def total(cls, parts: Sequence[Memory]) -> Memory:
        """Return the sums over several groups of layers with the same block size."""
        if len(parts) == 1:
            return parts[0]
        sums = {name: sum(getattr(part, name) for part in parts) for name in cls.__struct_fields__}
        return cls(**{**sums, "block_size": parts[0].block_size})

    @property
    def usage_held(self) -> float:
        """Share of blocks held by sequences, 0..1; vLLM reports it as kv_cache_usage_perc."""
        return self.blocks_held / self.num_blocks

    @property
    def slots_wasted(self) -> int:
        """Reserved slots without content."""
        return (self.blocks_held - self.state_blocks_held) * self.block_size - self.tokens_held


class TierFigures(Struct, frozen=True, gc=False, kw_only=True):
    """Usage of a tier outside the pool after the record. Several runs may share it, so one log has not all changes."""

    medium: Medium
    num_blocks: Int
    num_bytes: Int
    max_bytes: Int
    num_dropped: Int = 0  # blocks that could not be stored or read, since the store was opened
    last_drop: str = ""  # cause of the last dropped block


class Work(Struct, frozen=True, gc=False, kw_only=True):
    """Work of a step, computed from the batch by `accounting.work`, not measured."""

    num_tokens: Int
    flops: int
    weight_bytes: Int
    kv_read_bytes: Int
    kv_write_bytes: Int


class CacheTensors(Struct, frozen=True, gc=False, kw_only=True):
    """Effect of a step on the K and V tensors, measured by comparing their storage before and after."""

    copied_bytes: Int  # K and V of earlier tokens that were copied
    num_copied: Int  # tensors whose storage moved
    storage_bytes: Int  # bytes of the tensors after the step, filled or not


class Seen(Struct, frozen=True, gc=False, kw_only=True):
    """Source of a monitored server's record: one event message, or one metrics reading."""

    sequence: Int | None = None  # number of the message; None: no message
    published: Seconds | None = None  # seconds since 1970, by the server's clock
    replayed: bool = False  # fetched by a replay request rather than received live
    num_unmatched: Int = 0  # number of removals of unknown contents
    num_unread: Int = 0  # number of events of unknown types
    metrics: dict[str, float] = {}  # the server's metric name -> value; empty: no metrics reading
    problem: str = ""  # sentence that says why the message or reading is missing


class Objection(Struct, frozen=True, gc=False, kw_only=True):
    """Violation of a rule, found by a guard or check, with the numbers of its sentence."""

    rule: str = ""  # see docs/reference/trace-format.md; "" = unnamed
    seq_id: int | None = None
    text: str  # English sentence
    block_id: Int | None = None
    said: Int | None = None  # recorded value
    counted: Int | None = None  # recounted value


class StepRecord(Struct, frozen=True, gc=False, kw_only=True):
    """Entry of the log. `submit`, `abort` and `adjust` are external commands, `step` is one step of the engine,
    `transfer` is a transfer from or to other instances, `lost` is the loss of an instance, `observed` is a report of a
    monitored server.

    With several instances, each record concerns one of them, and all use one clock. The records of an instance are in
    order, and the receiver's record of a transfer precedes its sender's. Otherwise records are in order of arrival.
    """

    index: Int  # position in the log, from 0
    instance: Int = 0  # index in the header's instances
    kind: RecordKind
    step: Int  # number of steps of all instances so far, including this record
    batch: list[BatchEntry] = []
    ops: list[Op] = []
    outputs: list[Output] = []
    prompt_logprobs: list[PromptLogprob] = []
    timing: Timing
    memory: Memory
    work: Work | None = None
    cache_tensors: CacheTensors | None = None  # None: not measured (`count_copies`)
    tiers: list[TierFigures] = []  # tiers outside the pool, fastest first
    seen: Seen | None = None  # set if the kind is `observed`
    has_capture: bool = False
    # Findings of guards and checks in a run with an injected fault. Older logs have only sentences.
    integrity: list[Objection] | str = ""

    @property
    def objections(self) -> list[Objection]:
        """Objections in `integrity`, which older logs store as text."""
        if isinstance(self.integrity, str):
            return [Objection(text=text) for text in self.integrity.split("; ") if text]
        return self.integrity


class AttentionRows(Struct, frozen=True, kw_only=True):
    """Softmax weights of several queries of a sequence in one layer, over their visible keys."""

    seq_id: Int
    query_start: Int  # position of the first row's query
    key_start: Int  # position of the first column's key (> 0 under a sliding window)
    heads: list[Int]  # query heads, in the order of the first axis
    weights: np.ndarray[Any, Any]  # [H, R, C]; masked entries are 0; with sinks a row sums to less than 1


class KeyScores(Struct, frozen=True, kw_only=True):
    """Scores of a sequence's keys in a layer, from which this step selected the keys to forget (`forget`)."""

    seq_id: Int
    layer: Int
    scores: np.ndarray[Any, Any]  # [Hkv, C], float32; NaN: forgotten earlier


class LayerCapture(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Arrays of one layer for the T packed tokens of a step. Queries and keys are those after RoPE."""

    layer: Int
    q: np.ndarray[Any, Any]  # [T, Hq, D]
    k: np.ndarray[Any, Any]  # [T, Hkv, D]
    v: np.ndarray[Any, Any]  # [T, Hkv, Dv]
    rows: list[AttentionRows]
    # [T, Hq, Dv], attention output: per query head the sum of weight · v, before the projection; None: not captured.
    out: np.ndarray[Any, Any] | None = None


class Capture(Struct, frozen=True, kw_only=True):
    """Arrays of one record, rounded to `dtype`. `omitted` names the arrays that exceed the byte budget ("" = none)."""

    index: Int
    dtype: str
    layers: list[LayerCapture]
    omitted: str = ""
    scores: list[KeyScores] = []  # for sequences that forgot keys in this step; not limited by the byte budget
