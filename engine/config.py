"""Settings of an engine and of a request. Names follow vLLM where it has one."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from msgspec import Struct
from msgspec.structs import asdict, fields, replace

from engine.cache.attention_span import WindowPolicy
from engine.cache.forget_settings import ForgetSettings, PolicyName
from engine.options.check import MAX_WHOLE, of_wrong_kind, out_of_range
from engine.options.option import Control, Option
from engine.options.refusal import Refused, sentence
from engine.trace.operations import PreemptionMode, Setting
from engine.trace.records import InstanceRole

Strategy = Literal["paged", "first_fit", "contiguous", "none", "concat", "dynamic", "static"]
OFFERED = ("paged", "first_fit", "contiguous", "none")  # what the page's control has; the others are there to race
USUAL_DRAFTS = (
    '{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_min":2,"prompt_lookup_max":4}',
    '{"method":"draft_model","model":"bundled-mqa","num_speculative_tokens":4}',
)
KVCacheDtype = Literal["auto", "float32", "float16", "bfloat16", "fp8", "fp8_e4m3", "int8", "int4"]
RoutingPolicy = Literal["round_robin", "least_loaded", "longest_prefix"]
FailurePolicy = Literal["recompute", "fail"]
FaultName = Literal[
    "slot_off_by_one",
    "no_copy_at_shared_write",
    "stale_hash_after_reallocation",
    "output_lost_at_preemption",
    "missing_causal_mask",
    "rope_restarted_at_chunk",
    "read_after_release",
]
MAX_POOL_SLOTS = 1 << 24
MAX_LOGPROBS = 20
FAULTS_OF_SEVERAL = ("read_after_release",)  # mistakes between instances
MAX_INSTANCES = 4  # of each role, that a server builds
OF_SEVERAL = (
    "prefill", "decode", "mixed", "instances", "routing_policy", "ttft_slo", "kv_load_failure_policy",
    "link_mb_per_second",
)  # fmt: skip
MAX_SERVED_BLOCKS = 1 << 16  # each is an object in the log's state and a square on a page
SEED = Option(ge=-MAX_WHOLE, le=MAX_WHOLE)


# of what a request may hold, and what is looked through for each of its tokens
MAX_STOPS = 16
MAX_STOP_CHARACTERS = 256
MAX_STOP_TOKENS = 128
MAX_BIASES = 300  # as OpenAI has it


def _is_bias(logit_bias: dict[int, float]) -> bool:
    return all(i >= 0 and -100 <= bias <= 100 for i, bias in logit_bias.items())


class ConfigError(Refused):
    """Invalid setting; the message is one sentence that names it and a valid value."""


def _check_kinds(settings: Struct) -> None:
    """Raise ConfigError for a value of another type than its option's, or none of its choices."""
    if wrong := of_wrong_kind(settings):
        raise ConfigError(wrong)


class EngineConfig(Struct, frozen=True, kw_only=True):
    """Settings of the cache's layout and of scheduling.

    `strategy`: `paged` is the paged KV cache. `contiguous` is the same mechanism with one block of `max_model_len`
    slots per sequence. `first_fit` gives each sequence one piece of adjacent blocks, as long as its prompt and
    max_tokens, from the first hole that is large enough; the gaps between pieces are external fragmentation. `none`
    has no cache and recomputes every token of a sequence in every step.

    `concat`, `dynamic` and `static` exist for comparison. They store K and V as transformers does
    (engine/model/sequence_caches.py): two tensors per sequence and layer, which grow by a token per step (counted as a
    block of one slot per token), or have room for `max_model_len` tokens from the start.

    `attention_window` and `attention_sinks` are a policy over any model, after StreamingLLM (Xiao et al. 2023, arXiv
    2309.17453): every query sees the first `attention_sinks` tokens and the last `attention_window` ones, itself
    included, and the blocks between are released. A layer whose own sliding window is narrower keeps it. With
    `sliding_window_pattern` n, every n-th layer is exempt, as in Gemma 3 (n = 6) and GPT-OSS (n = 2); layers with equal
    attention spans then have their own pool and block tables. The paper numbers positions within the cache. Here they
    stay absolute, so keys are never rotated again, the distance between a query and the sinks grows with the text, and
    a sequence ends at the model's last position.
    """

    strategy: Annotated[Strategy, Option(control=Control(group="cache", initial="paged", offered=OFFERED))] = "paged"
    # slots a block, tokens
    block_size: Annotated[
        int,
        Option(
            ge=1,
            strategies=("paged", "first_fit", "none"),
            derived_under=("contiguous", "concat", "dynamic", "static"),
            control=Control(group="cache", usual=(1, 2, 4, 8, 16, 32), initial=4, term="block"),
        ),
    ] = 16
    # tokens, a multiple of block_size: a model's recurrent state is cached at each multiple, for later prompts that
    # begin alike; None = 4 blocks
    mamba_block_size: Annotated[int | None, Option(ge=1, le=MAX_POOL_SLOTS, strategies=("paged",))] = None
    # blocks in the pool; None = as many as fit the model (engine/setup/pool_size.py)
    num_blocks: Annotated[
        int | None,
        Option(
            ge=1,
            served_max=MAX_SERVED_BLOCKS,
            derived_under=("contiguous", "concat", "dynamic", "static"),
            control=Control(group="cache", initial=48),
        ),
    ] = None
    # share of a GPU's memory for weights and pool, where num_blocks is None (setup/device_pool.py); unused on a CPU
    gpu_memory_utilization: Annotated[float, Option(gt=0, le=1)] = 0.9
    # tokens, prompt and output; None = what the model and the pool can hold
    max_model_len: Annotated[int | None, Option()] = None
    # sequences running at once
    max_num_seqs: Annotated[int, Option(ge=1, served_max=1024, control=Control(group="scheduler"))] = 16
    # token budget of a step
    max_num_batched_tokens: Annotated[int, Option(ge=1, served_max=1 << 14, control=Control(group="scheduler"))] = 512
    enable_prefix_caching: Annotated[
        bool,
        Option(
            strategies=("paged",),
            derived_under=("first_fit", "contiguous", "none", "concat", "dynamic", "static"),
            control=Control(group="cache", term="prefix_cache"),
        ),
    ] = True
    enable_chunked_prefill: Annotated[bool, Option(control=Control(group="scheduler"))] = True
    # admit a sequence when all of its tokens have room (vLLM 0.32 does by default); else when its first chunk has
    scheduler_reserve_full_isl: Annotated[bool, Option()] = False
    scheduling_policy: Annotated[Literal["fcfs", "priority"], Option(control=Control(group="scheduler"))] = "fcfs"
    # swap: computed tokens go to CPU memory and come back
    preemption_mode: Annotated[PreemptionMode, Option(control=Control(group="scheduler", term="preempt"))] = "recompute"
    # blocks of CPU memory for that; None = as many as the pool has
    swap_space: Annotated[int | None, Option(served_max=MAX_SERVED_BLOCKS)] = None
    # what K and V are stored as; auto = the model's own, fp8 = fp8_e4m3
    kv_cache_dtype: Annotated[KVCacheDtype, Option(control=Control(group="cache"))] = "auto"
    # tokens; every layer's query sees no more than the last so many; None = all
    attention_window: Annotated[
        int | None,
        Option(
            ge=1,
            le=MAX_POOL_SLOTS,
            control=Control(group="cache", usual=(0, 8, 16, 32, 64, 128, 256, 512), none_as=0, term="sliding_window"),
        ),
    ] = None
    # tokens; the first so many stay in sight beside that window
    attention_sinks: Annotated[
        int | None, Option(ge=0, le=MAX_POOL_SLOTS, beside="attention_window", control=Control(group="cache"))
    ] = None
    # every n-th layer is left without that window; None = no layer is
    sliding_window_pattern: Annotated[
        int | None,
        Option(
            ge=1,
            le=1024,
            beside="attention_window",
            control=Control(group="cache", usual=(0, 2, 3, 4, 6), none_as=0, term="block_group"),
        ),
    ] = None
    # which tokens each KV head forgets (engine/model/forgetting); None = none
    forget_policy: Annotated[
        PolicyName | None,
        Option(strategies=("paged",), control=Control(group="cache", none_as="off", term="forgetting")),
    ] = None
    # tokens that each KV head of a layer keeps; None = 64
    forget_budget: Annotated[
        int | None,
        Option(
            ge=1,
            le=MAX_POOL_SLOTS,
            beside="forget_policy",
            control=Control(group="cache", usual=(8, 16, 32, 64, 128, 256, 512)),
        ),
    ] = None
    # tokens at the beginning that stay in any case; None = 4
    forget_sinks: Annotated[int | None, Option(ge=0, le=MAX_POOL_SLOTS, beside="forget_policy")] = None
    # newest tokens that stay in any case, for SnapKV those whose queries it observes; None = 8
    forget_recent: Annotated[int | None, Option(ge=0, le=MAX_POOL_SLOTS, beside="forget_policy")] = None
    # tokens from one decision to the next, after the one at the end of the prompt; 0: that is the only one; None = 1
    forget_every: Annotated[int | None, Option(ge=0, le=MAX_POOL_SLOTS, beside="forget_policy")] = None
    # positions over which SnapKV averages its scores, odd; None = 5
    forget_pool: Annotated[int | None, Option(ge=1, le=1023, beside="forget_policy")] = None
    # compare each output with that of a full cache, by a second forward pass
    forget_compare: Annotated[bool | None, Option(beside="forget_policy", control=Control(group="cache"))] = None
    # engines that only compute prompts, that only decode, and that do both; all 0 = one engine
    # (engine/cluster)
    prefill: Annotated[
        int, Option(ge=0, served_max=MAX_INSTANCES, strategies=("paged",), control=Control(group="instances"))
    ] = 0
    decode: Annotated[
        int, Option(ge=0, served_max=MAX_INSTANCES, strategies=("paged",), control=Control(group="instances"))
    ] = 0
    mixed: Annotated[
        int, Option(ge=0, served_max=MAX_INSTANCES, strategies=("paged",), control=Control(group="instances"))
    ] = 0
    # processes and Ray actors compute side by side; those of one thread take turns, and equal inputs give an equal log
    instances: Annotated[Literal["thread", "process", "ray"], Option()] = "thread"
    # which instance takes a request (engine/cluster/router.py)
    routing_policy: Annotated[RoutingPolicy, Option(control=Control(group="instances"))] = "longest_prefix"
    # seconds; a request that is not expected to have its first token by then is refused; None = none is
    ttft_slo: Annotated[float | None, Option(gt=0)] = None
    # where the keys and values that another instance has do not come: compute them here, or end the request
    kv_load_failure_policy: Annotated[FailurePolicy, Option()] = "recompute"
    # MB a second, decimal; the link between instances is made as slow, and called so; None = as fast as memory is
    link_mb_per_second: Annotated[float | None, Option(gt=0, control=Control(group="instances", none_as=0))] = None
    # draft tokens that the model verifies in one pass, as JSON (engine/speculate/settings.py); None = none
    speculative_config: Annotated[
        str | None,
        Option(
            strategies=("paged", "first_fit", "contiguous"),
            control=Control(group="scheduler", offered=USUAL_DRAFTS, none_as="off", term="draft"),
        ),
    ] = None
    # never the compiled forward pass: equal inputs then give the same log (trace.compare)
    enforce_eager: Annotated[bool, Option()] = False
    # on a GPU: sequences of the largest decode step that is one CUDA graph (engine/model/cuda_graphs.py); 0 = none is
    max_cudagraph_capture_size: Annotated[int, Option(ge=0, le=1024)] = 256
    # on a GPU: a step's record is encoded and written beside the next step's forward pass (trace/deferred_append.py)
    async_scheduling: Annotated[bool, Option()] = False
    # each record says what its step copied of the cache, counted on the tensors (engine/model/copies.py)
    count_copies: Annotated[bool, Option()] = False
    # the log and its captures hold no text, no token id and nothing that these could be found from (trace/redaction.py)
    private: Annotated[bool, Option(flag=False)] = False
    # a mistake put in on purpose (engine/lab/faults.py); None = a healthy engine
    fault: Annotated[FaultName | None, Option(flag=False)] = None
    # heads and layers that are off once the log has so many records (engine/model/ablation.py); None = none is
    ablate: Annotated[str | None, Option(flag=False)] = None
    # alternatives recorded with each chosen token
    num_logprobs: Annotated[int, Option(ge=0, le=MAX_LOGPROBS)] = 5
    seed: Annotated[int, SEED] = 0

    def __post_init__(self) -> None:
        _check_kinds(self)

    @property
    def num_instances(self) -> int:
        """Engines that share a log; 0: there is one, and nothing moves."""
        return self.prefill + self.decode + self.mixed

    @property
    def roles(self) -> list[InstanceRole]:
        """Roles of several instances, in the order of their log."""
        counts: list[tuple[InstanceRole, int]] = [
            ("prefill", self.prefill), ("decode", self.decode), ("mixed", self.mixed)
        ]  # fmt: skip
        return [role for role, count in counts for _ in range(count)]

    @property
    def num_places(self) -> int:
        """Requests that run at once, on all instances that answer."""
        return self.max_num_seqs * max(1, sum(role != "prefill" for role in self.roles))

    @property
    def of_one(self) -> EngineConfig:
        """The settings of each of several instances."""
        own = {name: field.default for name, field in _FIELDS.items() if name in OF_SEVERAL}
        fault = None if self.fault in FAULTS_OF_SEVERAL else self.fault
        return replace(self, **own, fault=fault)

    @property
    def policy(self) -> WindowPolicy | None:
        """Window policy of `attention_window` and its companions; None: no restriction."""
        if self.attention_window is None:
            return None
        return WindowPolicy(self.attention_window, self.attention_sinks or 0, self.sliding_window_pattern)

    @property
    def forgetting(self) -> ForgetSettings | None:
        """Settings of `forget_policy` and its companions; None: nothing is forgotten."""
        if self.forget_policy is None:
            return None
        given = {name: getattr(self, f"forget_{name}") for name in ("budget", "sinks", "recent", "every", "pool")}
        filled = {name: value for name, value in given.items() if value is not None}
        found = ForgetSettings(self.forget_policy, **filled, seed=self.seed)
        if self.forget_recent is None:  # a small budget leaves half to the scores
            found = found._replace(recent=min(found.recent, max(found.budget - found.sinks, 0) // 2))
        return found

    @property
    def by_sequence(self) -> Literal["concat", "dynamic", "static"] | None:
        """The strategy, if it keeps each sequence in tensors of its own."""
        return self.strategy if self.strategy in ("concat", "dynamic", "static") else None

    @property
    def tokens_a_step(self) -> int | None:
        """Maximum number of a sequence's tokens in one step; None: all uncomputed ones."""
        return self.max_num_batched_tokens if self.enable_chunked_prefill and self.strategy != "none" else None

    def as_map(self) -> dict[str, str | int | float | bool | None]:
        """Return every field by name, for the trace's header. What adds to records or takes from them only where it
        is on, and what is about several instances only where there are several; not what `num_blocks` came from.
        """
        # logs that are older do not have them
        optional = (
            "ablate", "async_scheduling", "count_copies", "mamba_block_size", "max_cudagraph_capture_size", "private",
            "scheduler_reserve_full_isl", "speculative_config",
        )  # fmt: skip
        left_out = {name for name in optional if not getattr(self, name)} | {"gpu_memory_utilization"}
        left_out |= set() if self.num_instances else set(OF_SEVERAL)
        left_out |= {name for name in _FIELDS if name.startswith("forget_")} if self.forget_policy is None else set()
        return {name: value for name, value in asdict(self).items() if name not in left_out}


_FIELDS = {field.name: field for field in fields(EngineConfig)}


class SamplingParams(Struct, frozen=True, kw_only=True):
    """Settings of sampling and of the number of outputs. temperature 0 is greedy.

    Order of operations: repetition penalty, logit bias, min_tokens, temperature, top-k, top-p, min-p, then one draw.
    Beam search follows the `beam_width` most probable sequences instead, under the distribution after min_tokens.

    Names are those of vLLM's SamplingParams and BeamSearchParams.
    """

    temperature: Annotated[
        float, Option(ge=0, le=100, may_change=True, control=Control(group="sampling", step=0.1, initial=0))
    ] = 0.0
    # None: as many as fit the model and the pool
    max_tokens: Annotated[int | None, Option(ge=1, may_change=True, control=Control(group="sampling", initial=64))] = (
        None
    )
    # 0 = off
    top_k: Annotated[int, Option(ge=0, may_change=True, control=Control(group="sampling", initial=0))] = 0
    top_p: Annotated[
        float, Option(gt=0, le=1, may_change=True, control=Control(group="sampling", step=0.05, initial=1))
    ] = 1.0
    min_p: Annotated[
        float, Option(ge=0, le=1, may_change=True, control=Control(group="sampling", step=0.05, initial=0))
    ] = 0.0
    # CTRL, https://arxiv.org/abs/1909.05858, section 4.1
    repetition_penalty: Annotated[
        float, Option(gt=0, le=100, may_change=True, control=Control(group="sampling", step=0.05, initial=1))
    ] = 1.0
    # None: derived from the engine's seed and which of its requests this is. No flag: the engine's seed has it.
    seed: Annotated[int | None, replace(SEED, may_change=True, flag=False, control=Control(group="sampling"))] = None
    # outputs: samples with a seed each, or the best beams
    n: Annotated[int, Option(ge=1, control=Control(group="sampling", initial=1))] = 1
    stop: Annotated[
        list[str],
        Option(
            most=MAX_STOPS,
            longest=MAX_STOP_CHARACTERS,
            holds=all,
            allowed=sentence("range.stop", most=MAX_STOPS, longest=MAX_STOP_CHARACTERS),
            may_change=True,
            control=Control(group="sampling"),
        ),
    ] = []
    stop_token_ids: Annotated[
        list[int],
        Option(most=MAX_STOP_TOKENS, allowed=sentence("range.stop_token_ids", most=MAX_STOP_TOKENS), may_change=True),
    ] = []
    ignore_eos: Annotated[bool, Option(may_change=True, control=Control(group="sampling", initial=False))] = False
    # samples to draw, of which the n with the highest cumulative logprob are the outputs
    best_of: Annotated[int | None, Option(ge=1)] = None
    use_beam_search: Annotated[bool, Option(control=Control(group="sampling", initial=False))] = False
    # sequences remembered
    beam_width: Annotated[
        int, Option(ge=1, control=Control(group="sampling", initial=4, only_with="use_beam_search"))
    ] = 4
    # a beam's score = cumulative logprob / (output tokens ** length_penalty)
    length_penalty: Annotated[float, Option(ge=-10, le=10)] = 1.0
    # before so many output tokens nothing ends a sequence
    min_tokens: Annotated[int, Option(ge=0, le=1 << 30, may_change=True)] = 0
    # token id -> added to its logit
    logit_bias: Annotated[
        dict[int, float],
        Option(
            most=MAX_BIASES,
            holds=_is_bias,
            allowed=sentence("range.logit_bias", most=MAX_BIASES),
            may_change=True,
        ),
    ] = {}
    # alternatives recorded with each token, where the engine's num_logprobs has fewer
    logprobs: Annotated[int | None, Option(ge=0, le=MAX_LOGPROBS, may_change=True)] = None
    # alternatives recorded with each prompt token; None: nothing is recorded
    prompt_logprobs: Annotated[int | None, Option(ge=0, le=MAX_LOGPROBS)] = None

    def __post_init__(self) -> None:
        _check_kinds(self)

    @property
    def num_sequences(self) -> int:
        """Sequences that run for one prompt."""
        return self.beam_width if self.use_beam_search else self.best_of or self.n

    def checked(self) -> Self:
        """Itself, when every value is in range.

        Raises:
            ConfigError: one is not.
        """
        if wrong := out_of_range(self):
            raise ConfigError(wrong)
        if self.best_of is not None and self.best_of < self.n:
            raise ConfigError(sentence("best_of", n=self.n, best_of=self.best_of))
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise ConfigError(sentence("min_tokens", most=self.max_tokens, value=self.min_tokens))
        if self.use_beam_search:
            if self.n > self.beam_width or self.best_of is not None:
                raise ConfigError(sentence("beam.outputs", most=self.beam_width))
            if self.temperature != 0 or self.stop:
                raise ConfigError(sentence("beam.sampling"))
        elif self.num_sequences > 1 and self.temperature == 0:
            raise ConfigError(sentence("equal_samples"))
        return self

    def as_map(self) -> dict[str, Setting]:
        """Return every field by name, for the trace; `logprobs` only where it is given."""
        fields = {**asdict(self), "logit_bias": {str(i): bias for i, bias in self.logit_bias.items()}}
        if self.logprobs is None:  # as logs have it that are older than the field
            del fields["logprobs"]
        return fields
