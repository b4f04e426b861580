"""Structs of a trace: one header, then records; a record may have a capture (arrays)."""

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
    """An attention head that was measured to look at keys of one kind, on text that the model had never seen."""

    pattern: str  # previous_token, clause_start, parallel_clause, last_punctuation, first_token, itself, induction
    layer: Int
    head: Int  # query head
    mean_weight: float  # what its queries give to that key, on average
    uniform: float  # what a head that looks at every key alike would give it
    queries: Int  # how many were measured


class ModelFacts(Struct, frozen=True, kw_only=True):
    """Facts of a model that the trace, the accounting and the page need. Sizes are counts, not bytes."""

    name: str
    architecture: str  # Hugging Face class name
    num_params: Int
    num_layers: Int  # that keep keys and values; `layer_kinds` has all
    hidden_size: Int
    intermediate_size: Int
    num_heads: Int  # query heads, Hq
    num_kv_heads: Int  # Hkv, as stored in the cache, or as computed from its latents
    head_dim: Int  # D, of queries and keys
    v_head_dim: Int  # Dv, of values
    vocab_size: Int
    max_position: Int
    dtype: str
    sliding_windows: list[Int | None]  # per layer; None = full attention
    scalings: list[float] = []  # per layer: a score is q · k * scaling; empty = not stated
    softcaps: list[float | None] = []  # per layer: a score becomes c * tanh(score / c); None = it does not
    sinks: list[list[float] | None] = []  # per layer: a logit for each query head that joins its softmax; None = none
    tie_word_embeddings: bool = False
    num_active_params: Int | None = None  # mixture of experts: parameters used by one token; None = all
    num_experts: Int = 0  # of a layer, to choose from; 0 = there are none, or not stated
    num_experts_per_tok: Int = 0
    bytes_per_weight: float | None = None  # mean over the layers and the output projection; None = of `dtype`
    rounded_to: str | None = None  # what its linear layers were rounded to when it was opened; None = nothing was
    # what each layer keeps of a sequence, in the model's order: keys and values, a state of constant size, both or
    # nothing; empty = keys and values in all. Layers are numbered among those with keys everywhere else
    layer_kinds: list[LayerKeeps] = []
    state_bytes: Int = 0  # of one sequence's state, all layers together
    # MLA: numbers of the one vector that a layer keeps of a token, from which keys and values of all heads are
    # computed, and how many of them are the rotated key part that all heads share; 0 = keys and values are kept
    latent_dim: Int = 0
    rope_dim: Int = 0
    layer_shapes: list[list[Int]] = []  # per layer: its own [Hkv, D, Dv], where they differ; empty = as above in all
    heads: list[HeadPattern] = []  # known patterns, the clearest first; empty = not measured

    @property
    def group_size(self) -> int:
        """Query heads that share one KV head (1 = MHA, num_heads = MQA)."""
        return self.num_heads // self.num_kv_heads

    def kv_shape(self, layer: int) -> tuple[int, int, int]:
        """Return Hkv, D and Dv of a layer."""
        if not self.layer_shapes:
            return self.num_kv_heads, self.head_dim, self.v_head_dim
        num_kv_heads, head_dim, v_head_dim = self.layer_shapes[layer]
        return num_kv_heads, head_dim, v_head_dim


class TokenizerFacts(Struct, frozen=True, kw_only=True):
    """The tokenizer behind the ids."""

    name: str
    vocab_size: Int
    eos_token_ids: list[Int]


class Roofs(Struct, frozen=True, kw_only=True):
    """Measured peak rates of a machine (the roofs of a roofline), and how they were measured."""

    dtype: str  # of the matrices, the model's
    num_threads: Int
    measured_at: str  # ISO 8601, UTC; a clock reading
    flops_per_second: float  # median of `matmul_runs` products of two square matrices of `matmul_size`
    matmul_size: Int
    matmul_runs: Int
    bytes_per_second: float  # median of `copy_runs` copies of an array of `copy_bytes`, each byte read and written
    copy_bytes: Int
    copy_runs: Int


class Machine(Struct, frozen=True, kw_only=True):
    """Where the run happened."""

    device: str
    processor: str
    num_threads: Int
    versions: dict[str, str]
    roofs: Roofs | None = None  # None: not measured when the log began


class BlockGroup(Struct, frozen=True, kw_only=True):
    """Layers that see alike, the pool of blocks that they share, and what a block of it keeps."""

    instance: Int = 0  # whose pool it is: index in the header's instances
    layers: list[Int]
    first_block: Int  # its blocks have the ids [first_block, first_block + num_blocks)
    num_blocks: Int
    window: Int | None = None  # the keys that its layers see; None = all
    sinks: Int = 0  # tokens at the beginning of the sequence that stay in sight beside the window
    kv_bytes_per_token: Int  # of its layers together; 0 of a group with states
    # > 0: a block holds no keys but the state of one sequence in all layers that have one, so many bytes; one at an
    # entry of a block table has the state after the last computed token that the entry covers
    state_bytes: Int = 0
    checkpoint: Int = 0  # tokens: a state is left at each multiple of them


class InstanceFacts(Struct, frozen=True, kw_only=True):
    """Engine among several of a run, with its own pool and scheduler; all serve the same model."""

    name: str
    role: InstanceRole  # prefill, decode, or both
    num_threads: Int = 0  # that it computes with; 0: not said


class Simulated(Struct, frozen=True, kw_only=True):
    """A run that was reckoned: its tokens stand for others, its clock readings follow from a given cost of a step."""

    cost: str  # where the seconds of a step come from
    seed: Int = 0


class Observed(Struct, frozen=True, kw_only=True):
    """Monitored server: its reports are known, and unreported values are unknown."""

    source: str  # which server, and which version of it where it says so
    events: list[str] = []  # where each instance's events came from
    # Unreported values. Fields that need a value have a meaningless one: see "observed" in
    # docs/reference/trace-format.md
    unknown: list[Unknown]


class Watched(Struct, frozen=True, kw_only=True):
    """A run of another engine, written down inside its process: what it decided is known, as of a run of ours."""

    source: str  # which engine, and its version
    # Unreported values. Fields that need a value have a meaningless one
    unknown: list[NotWatched]
    first_block_id: Int = 0  # its own number of what is block 0 here


FINISHED_KEPT = 1000  # of what is written here: what a server keeps in memory must not grow by the day


class Header(Struct, frozen=True, kw_only=True):
    """The first frame of a trace."""

    format: str = FORMAT
    version: Int = VERSION
    generator: str  # program and version that wrote it
    created: str  # ISO 8601, UTC; a clock reading
    model: ModelFacts
    tokenizer: TokenizerFacts
    engine: dict[str, str | int | float | bool | None]  # EngineConfig, every field resolved
    kv_bytes_per_token: Int  # accounting.kv_bytes_per_token(model), all layers
    machine: Machine
    # instance after instance, of each the group that sees most first; empty = one group of all layers, with
    # engine.num_blocks blocks
    block_groups: list[BlockGroup] = []
    instances: list[InstanceFacts] = []  # empty = one, of which nothing more is said
    simulated: Simulated | None = None  # None = a model computed it
    observed: Observed | None = None  # None = the log is the engine's own
    watched: Watched | None = None  # None = not another engine's
    finished_kept: Int | None = None  # finished sequences that the state keeps, the last ones; None = all


class BatchEntry(Struct, frozen=True, gc=False, kw_only=True):
    """A sequence's share of a step: the tokens computed for it, in packed order."""

    seq_id: Int
    phase: Phase
    start: Int  # position of the first token computed
    token_ids: list[Int]
    context_len: Int  # keys the last of these tokens can see = start + len(token_ids)
    samples: bool  # whether the step ends with a new token for it (a prefill chunk that is not the last does not)


class Candidate(Struct, frozen=True, gc=False):
    """A token that could have been chosen."""

    token_id: Int
    token_bytes: bytes
    logprob: float  # natural log, under the raw distribution (before temperature, filters and penalties)


class FullCacheOutput(Struct, frozen=True, gc=False, kw_only=True):
    """Answer of the full cache in place of an output, given the same text (`forget_compare`)."""

    divergence: float  # KL divergence from its distribution to the output's, nats, raw distributions
    token_id: Int  # its most probable token
    token_bytes: bytes
    own_token_id: Int  # the most probable token of the distribution that the output is of
    logprob: float  # that it gives the output's token


class Output(Struct, frozen=True, gc=False, kw_only=True):
    """A token chosen in this step."""

    seq_id: Int
    token_id: Int
    token_bytes: bytes  # what the token stands for; may be a fragment of a UTF-8 character
    text: str  # text that became complete with this token ("" while a character is unfinished)
    logprob: float
    top: list[Candidate]  # most probable first
    full: FullCacheOutput | None = None  # None: not compared


class PromptLogprob(Struct, frozen=True, gc=False, kw_only=True):
    """Log probability of a prompt token given those before it; recorded in the step that computed the position before.

    Each position from 1 on occurs once in a trace, in order, if the request has `prompt_logprobs`.
    """

    seq_id: Int
    position: Int  # of the token in the prompt, 1 or more
    token_id: Int
    logprob: float  # natural log, raw distribution
    top: list[Candidate]  # most probable first


class Timing(Struct, frozen=True, gc=False, kw_only=True):
    """Clock readings, seconds; the only part of a record that differs between two runs of the same inputs."""

    at: Seconds  # end of the step, since the trace began
    schedule: Seconds = 0.0
    draft: Seconds = 0.0  # of `schedule`: proposing draft tokens, a draft model's own steps with them
    prepare: Seconds = 0.0
    forward: Seconds = 0.0
    sample: Seconds = 0.0
    transfer: Seconds = 0.0  # of `prepare` and `sample`: content that moved between the pool and what is outside it
    tokenize: Seconds = 0.0  # a submission: of texts into token ids, before it was made
    detokenize: Seconds = 0.0  # of `sample`: of the chosen ids into text, with the look for stop strings
    compiled: bool = False  # the forward pass ran as machine code: whether that is ready in time is the clock's too


class Memory(Struct, frozen=True, gc=False, kw_only=True):
    """The pool after the record, by `state.memory_figures`. One block id stands for that block in every layer of its
    group; where there are several groups of layers, all figures are sums over them.
    """

    num_blocks: Int
    block_size: Int
    blocks_held: Int  # ref_count > 0
    blocks_cached: Int  # ref_count 0 with a hash: free, yet reusable
    blocks_free: Int  # ref_count 0 without a hash
    tokens_held: Int  # slots of held blocks that hold computed K and V, each physical slot once
    tokens_logical: Int  # the same counted once for each sequence whose table has it: larger when blocks are shared
    bytes_held: Int  # blocks_held * block_size * kv_bytes_per_token (of the group), or blocks_held * state_bytes
    bytes_used: Int  # tokens_held * kv_bytes_per_token; of a group with states all that is held
    bytes_cached: Int  # blocks_cached * block_size * kv_bytes_per_token, or blocks_cached * state_bytes
    swap_blocks: Int = 0  # blocks of the CPU store
    swap_blocks_held: Int = 0  # of these, with the content of preempted sequences
    state_blocks_held: Int = 0  # of the blocks held, those that hold states: they have no slots

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
        """Return the figures that follow from the counts. `state_bytes` > 0: of blocks with states, which hold no
        tokens.
        """
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
        """Return the sums over several groups of layers; their blocks are of one size in tokens."""
        if len(parts) == 1:
            return parts[0]
        sums = {name: sum(getattr(part, name) for part in parts) for name in cls.__struct_fields__}
        return cls(**{**sums, "block_size": parts[0].block_size})

    @property
    def usage_held(self) -> float:
        """Share of the blocks that sequences hold: what vLLM reports as kv_cache_usage_perc, 0..1."""
        return self.blocks_held / self.num_blocks

    @property
    def slots_wasted(self) -> int:
        """Reserved slots without content."""
        return (self.blocks_held - self.state_blocks_held) * self.block_size - self.tokens_held


class TierFigures(Struct, frozen=True, gc=False, kw_only=True):
    """Usage of a tier outside the pool after the record. Several runs may share it, so no single log has all of it."""

    medium: Medium
    num_blocks: Int
    num_bytes: Int
    max_bytes: Int
    num_dropped: Int = 0  # blocks that could not be stored or read, since the store was opened
    last_drop: str = ""  # why the last of them


class Work(Struct, frozen=True, gc=False, kw_only=True):
    """Derived from the batch by `accounting.work`; no measurement."""

    num_tokens: Int
    flops: int
    weight_bytes: Int
    kv_read_bytes: Int
    kv_write_bytes: Int


class CacheTensors(Struct, frozen=True, gc=False, kw_only=True):
    """Effect of a step on the K and V tensors, measured on them: where their storage lies before and after it."""

    copied_bytes: Int  # K and V of earlier tokens that were copied to another place
    num_copied: Int  # tensors whose numbers lie elsewhere now
    storage_bytes: Int  # that the tensors take after the step, filled or not


class Seen(Struct, frozen=True, gc=False, kw_only=True):
    """Source of a monitored server's record: one event message, or one metrics reading."""

    sequence: Int | None = None  # the message's number; None: no message
    published: Seconds | None = None  # the server's clock, seconds since 1970
    replayed: bool = False  # fetched by a replay request rather than received live
    num_unmatched: Int = 0  # contents said to be removed of which nothing was known
    num_unread: Int = 0  # events of kinds that this program does not know
    metrics: dict[str, float] = {}  # by the server's names, as it said them; empty: no look at metrics
    problem: str = ""  # why there is nothing, one sentence


class Objection(Struct, frozen=True, gc=False, kw_only=True):
    """Finding of a guard or check: which rule is broken, and the numbers that its sentence has."""

    rule: str = ""  # see docs/reference/trace-format.md; "" = one without a name there
    seq_id: int | None = None
    text: str  # the sentence, in the guard's own words
    block_id: Int | None = None
    said: Int | None = None  # what the books say
    counted: Int | None = None  # what a recount finds


class StepRecord(Struct, frozen=True, gc=False, kw_only=True):
    """Entry of the log. `submit`, `abort` and `adjust` come from outside, `step` is one pass of the engine, `transfer`
    is a transfer from or to other instances, `lost` is the end of an instance. `observed`: a report of a monitored
    server.

    With several instances each record is about one. The records of an instance are in the order of its events, and all
    clock readings are of one clock; a receipt comes before its sender's record of it. Otherwise records are in the
    order of their arrival.
    """

    index: Int  # position in the log, from 0
    instance: Int = 0  # index in the header's instances
    kind: RecordKind
    step: Int  # steps made, by all instances, this one included
    batch: list[BatchEntry] = []
    ops: list[Op] = []
    outputs: list[Output] = []
    prompt_logprobs: list[PromptLogprob] = []
    timing: Timing
    memory: Memory
    work: Work | None = None
    cache_tensors: CacheTensors | None = None  # None: not counted (`count_copies`)
    tiers: list[TierFigures] = []  # outside the pool, the fastest first
    seen: Seen | None = None  # of a record of kind `observed`
    has_capture: bool = False
    # What guards and checks found wrong in a run with a fault put in on purpose; empty = nothing. Old logs: only text.
    integrity: list[Objection] | str = ""

    @property
    def objections(self) -> list[Objection]:
        """Objections in `integrity`, in either form that a log may have."""
        if isinstance(self.integrity, str):
            return [Objection(text=text) for text in self.integrity.split("; ") if text]
        return self.integrity


class AttentionRows(Struct, frozen=True, kw_only=True):
    """Softmax weights of some queries of one sequence in one layer, over the keys they could see."""

    seq_id: Int
    query_start: Int  # position of the first row's query
    key_start: Int  # position of the first column's key (> 0 under a sliding window)
    heads: list[Int]  # query heads, in the order of the first axis
    weights: np.ndarray[Any, Any]  # [H, R, C]; masked entries are 0; with sinks a row sums to less than 1


class KeyScores(Struct, frozen=True, kw_only=True):
    """Scores by which a sequence forgot keys of one layer in this step (`forget`)."""

    seq_id: Int
    layer: Int
    scores: np.ndarray[Any, Any]  # [Hkv, C], float32; NaN: forgotten before


class LayerCapture(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The arrays of one layer for the T packed tokens of a step, as cached (after RoPE)."""

    layer: Int
    q: np.ndarray[Any, Any]  # [T, Hq, D]
    k: np.ndarray[Any, Any]  # [T, Hkv, D]
    v: np.ndarray[Any, Any]  # [T, Hkv, Dv]
    rows: list[AttentionRows]
    # [T, Hq, Dv], attention output: per query head the sum of weight · v, before heads are mixed; None: not captured
    out: np.ndarray[Any, Any] | None = None


class Capture(Struct, frozen=True, kw_only=True):
    """The arrays of one record, rounded to `dtype`. `omitted` says what the byte budget left out ("" = nothing)."""

    index: Int
    dtype: str
    layers: list[LayerCapture]
    omitted: str = ""
    scores: list[KeyScores] = []  # of what forgot something in this step, beside that budget
