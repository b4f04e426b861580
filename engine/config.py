"""Settings of an engine and of a request. Names are vLLM's where it has the setting."""

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
OFFERED = (
    "paged",
    "first_fit",
    "contiguous",
    "none",
)  # strategies in the page's control; the others exist for comparison
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
TRANSFER_FAULTS = ("read_after_release",)  # faults between instances
MAX_INSTANCES = 4  # maximum number of instances of each role that a server builds
INSTANCE_SETTINGS = (
    "prefill", "decode", "mixed", "instances", "routing_policy", "ttft_slo", "kv_load_failure_policy",
    "link_mb_per_second",
)  # fmt: skip
MAX_SERVED_BLOCKS = 1 << 16  # each block is an object in the log's state and a square on a page
SEED = Option(ge=-MAX_WHOLE, le=MAX_WHOLE)
# limits of a request's lists, which are searched for each of its tokens
MAX_STOPS = 16
MAX_STOP_CHARACTERS = 256
MAX_STOP_TOKENS = 128
MAX_BIASES = 300  # OpenAI's limit


def _is_bias(logit_bias: dict[int, float]) -> bool:
    return all(i >= 0 and -100 <= bias <= 100 for i, bias in logit_bias.items())


class ConfigError(Refused):
    """Invalid setting; the message is one sentence with the setting and a valid value."""


def _check_kinds(settings: Struct) -> None:
    """Raise ConfigError for a value that has a wrong type or is not among its option's choices."""
    if wrong := of_wrong_kind(settings):
        raise ConfigError(wrong)


class EngineConfig(Struct, frozen=True, kw_only=True):
    """Settings of the cache's layout and of scheduling.

    `strategy`: `paged` is the paged KV cache. `contiguous` is the same mechanism with one block of `max_model_len`
    slots per sequence. `first_fit` allocates for each sequence one piece of adjacent blocks for its prompt and
    max_tokens, from the first hole that is large enough; the gaps between pieces are external fragmentation. `none`
    has no cache and recomputes every token of a sequence in every step.

    `concat`, `dynamic` and `static` exist for comparison. They store K and V as transformers does
    (engine/model/sequence_caches.py), in two tensors per sequence and layer. These grow by a token per step (counted as
    a block of one slot per token), or are allocated for `max_model_len` tokens.

    `attention_window` and `attention_sinks` are a policy for any model, after StreamingLLM (Xiao et al. 2023, arXiv
    2309.17453): every query sees the first `attention_sinks` tokens and the last `attention_window` ones, including its
    own, and the blocks in between are released. A narrower sliding window of the model's layer takes precedence. With
    `sliding_window_pattern` n, every n-th layer is exempt, as in Gemma 3 (n = 6) and GPT-OSS (n = 2); layers with equal
    attention spans then have their own pool and block tables. The paper numbers positions within the cache. Here
    positions are absolute, so keys are never rotated again, the distance between a query and the sinks grows with the
    text, and a sequence ends at the model's last position.
    """

    strategy: Annotated[Strategy, Option(control=Control(group="cache", initial="paged", offered=OFFERED))] = "paged"
    # slots per block, one token each
    block_size: Annotated[
        int,
        Option(
            ge=1,
            strategies=("paged", "first_fit", "none"),
            derived_under=("contiguous", "concat", "dynamic", "static"),
            control=Control(group="cache", usual=(1, 2, 4, 8, 16, 32), initial=4, term="block"),
        ),
    ] = 16
    # tokens, a multiple of block_size; a model's recurrent state is cached at every multiple of it, for later prompts
    # with the same beginning; None = 4 blocks
    mamba_block_size: Annotated[int | None, Option(ge=1, le=MAX_POOL_SLOTS, strategies=("paged",))] = None
    # blocks in the pool; None = a default that depends on the model (engine/setup/pool_size.py)
    num_blocks: Annotated[
        int | None,
        Option(
            ge=1,
            served_max=MAX_SERVED_BLOCKS,
            derived_under=("contiguous", "concat", "dynamic", "static"),
            control=Control(group="cache", initial=48),
        ),
    ] = None
    # share of a GPU's memory for weights and pool if num_blocks is None (setup/device_pool.py); unused on a CPU
    gpu_memory_utilization: Annotated[float, Option(gt=0, le=1)] = 0.9
    # maximum tokens of a sequence, prompt and output; None = the maximum for the model and the pool
    max_model_len: Annotated[int | None, Option()] = None
    # maximum number of running sequences
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
    # admit a sequence only if all of its tokens fit (the default of vLLM 0.32), not just its first chunk
    scheduler_reserve_full_isl: Annotated[bool, Option()] = False
    scheduling_policy: Annotated[Literal["fcfs", "priority"], Option(control=Control(group="scheduler"))] = "fcfs"
    # recompute the tokens of preempted sequences later, or swap them to CPU memory
    preemption_mode: Annotated[PreemptionMode, Option(control=Control(group="scheduler", term="preempt"))] = "recompute"
    # blocks of CPU memory for preemption by swap; None = as many as the pool has
    swap_space: Annotated[int | None, Option(served_max=MAX_SERVED_BLOCKS)] = None
    # dtype of stored K and V; auto = the model's, fp8 = fp8_e4m3
    kv_cache_dtype: Annotated[KVCacheDtype, Option(control=Control(group="cache"))] = "auto"
    # maximum number of tokens that a query sees in every layer, counted from its own backwards; None = all
    attention_window: Annotated[
        int | None,
        Option(
            ge=1,
            le=MAX_POOL_SLOTS,
            control=Control(group="cache", usual=(0, 8, 16, 32, 64, 128, 256, 512), none_as=0, term="sliding_window"),
        ),
    ] = None
    # number of first tokens that remain visible in addition to the window
    attention_sinks: Annotated[
        int | None, Option(ge=0, le=MAX_POOL_SLOTS, beside="attention_window", control=Control(group="cache"))
    ] = None
    # every n-th layer is exempt from the window; None = no layer is
    sliding_window_pattern: Annotated[
        int | None,
        Option(
            ge=1,
            le=1024,
            beside="attention_window",
            control=Control(group="cache", usual=(0, 2, 3, 4, 6), none_as=0, term="block_group"),
        ),
    ] = None
    # policy that selects the tokens that each KV head forgets (engine/model/forgetting); None = none are forgotten
    forget_policy: Annotated[
        PolicyName | None,
        Option(strategies=("paged",), control=Control(group="cache", none_as="off", term="forgetting")),
    ] = None
    # number of tokens that each KV head of a layer does not forget; None = 64
    forget_budget: Annotated[
        int | None,
        Option(
            ge=1,
            le=MAX_POOL_SLOTS,
            beside="forget_policy",
            control=Control(group="cache", usual=(8, 16, 32, 64, 128, 256, 512)),
        ),
    ] = None
    # number of first tokens that are never forgotten; None = 4
    forget_sinks: Annotated[int | None, Option(ge=0, le=MAX_POOL_SLOTS, beside="forget_policy")] = None
    # number of newest tokens that are never forgotten; SnapKV observes their queries; None = 8
    forget_recent: Annotated[int | None, Option(ge=0, le=MAX_POOL_SLOTS, beside="forget_policy")] = None
    # tokens between decisions after the one at the end of the prompt; 0 = there are no others; None = 1
    forget_every: Annotated[int | None, Option(ge=0, le=MAX_POOL_SLOTS, beside="forget_policy")] = None
    # number of positions over which SnapKV averages its scores, odd; None = 5
    forget_pool: Annotated[int | None, Option(ge=1, le=1023, beside="forget_policy")] = None
    # compare each output with that of a full cache, computed by a second forward pass
    forget_compare: Annotated[bool | None, Option(beside="forget_policy", control=Control(group="cache"))] = None
    # number of engines that only compute prompts, that only decode, and that do both; all 0 = one engine
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
    # processes and Ray actors compute in parallel; instances on one thread take turns, so equal inputs give equal logs
    instances: Annotated[Literal["thread", "process", "ray"], Option()] = "thread"
    # policy that selects the instance of a request (engine/cluster/router.py)
    routing_policy: Annotated[RoutingPolicy, Option(control=Control(group="instances"))] = "longest_prefix"
    # seconds; a request is refused if its first token is expected later; None = none is refused
    ttft_slo: Annotated[float | None, Option(gt=0)] = None
    # if keys and values do not arrive from another instance: recompute them here, or end the request
    kv_load_failure_policy: Annotated[FailurePolicy, Option()] = "recompute"
    # decimal MB per second that the link between instances is limited to, and labelled with; None = memory speed
    link_mb_per_second: Annotated[float | None, Option(gt=0, control=Control(group="instances", none_as=0))] = None
    # draft tokens that the model verifies in one pass, as JSON (engine/speculate/settings.py); None = none
    speculative_config: Annotated[
        str | None,
        Option(
            strategies=("paged", "first_fit", "contiguous"),
            control=Control(group="scheduler", offered=USUAL_DRAFTS, none_as="off", term="draft"),
        ),
    ] = None
    # never use the compiled forward pass, so that equal inputs give the same log (trace.compare)
    enforce_eager: Annotated[bool, Option()] = False
    # on a GPU: maximum number of sequences of a decode step that runs as a CUDA graph (engine/model/cuda_graphs.py);
    # 0 disables graphs
    max_cudagraph_capture_size: Annotated[int, Option(ge=0, le=1024)] = 256
    # on a GPU: encode and write a step's record during the next step's forward pass (trace/deferred_append.py)
    async_scheduling: Annotated[bool, Option()] = False
    # record the bytes of the cache that each step copies, counted on the tensors (engine/model/copies.py)
    count_copies: Annotated[bool, Option()] = False
    # the log and its captures contain no text or token ids, or data to derive them from (trace/redaction.py)
    private: Annotated[bool, Option(flag=False)] = False
    # deliberate bug (engine/lab/faults.py); None = a correct engine
    fault: Annotated[FaultName | None, Option(flag=False)] = None
    # heads and layers that are switched off from a record of the log on (engine/model/ablation.py); None = none are
    ablate: Annotated[str | None, Option(flag=False)] = None
    # number of alternatives recorded with each chosen token
    num_logprobs: Annotated[int, Option(ge=0, le=MAX_LOGPROBS)] = 5
    seed: Annotated[int, SEED] = 0

    def __post_init__(self) -> None:
        _check_kinds(self)

    @property
    def num_instances(self) -> int:
        """Number of engines that share a log; 0: there is a single engine without transfers."""
        return self.prefill + self.decode + self.mixed

    @property
    def roles(self) -> list[InstanceRole]:
        """Roles of several instances, in the order of their ids."""
        counts: list[tuple[InstanceRole, int]] = [
            ("prefill", self.prefill), ("decode", self.decode), ("mixed", self.mixed)
        ]  # fmt: skip
        return [role for role, count in counts for _ in range(count)]

    @property
    def num_places(self) -> int:
        """Maximum number of running sequences on all instances that decode."""
        return self.max_num_seqs * max(1, sum(role != "prefill" for role in self.roles))

    @property
    def instance_config(self) -> EngineConfig:
        """Settings of each of several instances."""
        defaults = {name: field.default for name, field in _FIELDS.items() if name in INSTANCE_SETTINGS}
        fault = None if self.fault in TRANSFER_FAULTS else self.fault
        return replace(self, **defaults, fault=fault)

    @property
    def policy(self) -> WindowPolicy | None:
        """Policy of `attention_window` and related settings; None: there is none."""
        if self.attention_window is None:
            return None
        return WindowPolicy(self.attention_window, self.attention_sinks or 0, self.sliding_window_pattern)

    @property
    def forgetting(self) -> ForgetSettings | None:
        """Settings of `forget_policy` and related settings; None: no keys are forgotten."""
        if self.forget_policy is None:
            return None
        values = {name: getattr(self, f"forget_{name}") for name in ("budget", "sinks", "recent", "every", "pool")}
        filled = {name: value for name, value in values.items() if value is not None}
        found = ForgetSettings(self.forget_policy, **filled, seed=self.seed)
        if self.forget_recent is None:  # at least half of a small budget depends on the scores
            found = found._replace(recent=min(found.recent, max(found.budget - found.sinks, 0) // 2))
        return found

    @property
    def by_sequence(self) -> Literal["concat", "dynamic", "static"] | None:
        """The strategy if it stores each sequence in separate tensors, else None."""
        return self.strategy if self.strategy in ("concat", "dynamic", "static") else None

    @property
    def tokens_a_step(self) -> int | None:
        """Maximum number of a sequence's tokens in a step; None: all uncomputed tokens."""
        return self.max_num_batched_tokens if self.enable_chunked_prefill and self.strategy != "none" else None

    def as_map(self) -> dict[str, str | int | float | bool | None]:
        """Return the fields by name, for the trace's header. Some fields are only included if they are on, and those of
        several instances only if there are several. `gpu_memory_utilization` is omitted.
        """
        # older logs do not have these fields
        optional = (
            "ablate", "async_scheduling", "count_copies", "mamba_block_size", "max_cudagraph_capture_size", "private",
            "scheduler_reserve_full_isl", "speculative_config",
        )  # fmt: skip
        omitted = {name for name in optional if not getattr(self, name)} | {"gpu_memory_utilization"}
        omitted |= set() if self.num_instances else set(INSTANCE_SETTINGS)
        omitted |= {name for name in _FIELDS if name.startswith("forget_")} if self.forget_policy is None else set()
        return {name: value for name, value in asdict(self).items() if name not in omitted}


_FIELDS = {field.name: field for field in fields(EngineConfig)}


class SamplingParams(Struct, frozen=True, kw_only=True):
    """Settings of sampling and of the number of outputs. temperature 0 is greedy.

    The order of operations is: repetition penalty, logit bias, min_tokens, temperature, top-k, top-p, min-p, one draw.
    Beam search follows the `beam_width` most probable sequences instead, under the distribution after min_tokens.

    Names are those of vLLM's SamplingParams and BeamSearchParams.
    """

    temperature: Annotated[
        float, Option(ge=0, le=100, may_change=True, control=Control(group="sampling", step=0.1, initial=0))
    ] = 0.0
    # None: the maximum for the model and the pool
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
    # None: derived from the engine's seed and the request's number. It has no flag, since --seed is the engine's.
    seed: Annotated[int | None, replace(SEED, may_change=True, flag=False, control=Control(group="sampling"))] = None
    # number of outputs: samples with different seeds, or the best beams
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
    # number of samples, of which the n with the highest cumulative logprob are the outputs
    best_of: Annotated[int | None, Option(ge=1)] = None
    use_beam_search: Annotated[bool, Option(control=Control(group="sampling", initial=False))] = False
    # number of running sequences of a beam search
    beam_width: Annotated[
        int, Option(ge=1, control=Control(group="sampling", initial=4, only_with="use_beam_search"))
    ] = 4
    # a beam's score = cumulative logprob / (output tokens ** length_penalty)
    length_penalty: Annotated[float, Option(ge=-10, le=10)] = 1.0
    # number of output tokens before which a sequence cannot end
    min_tokens: Annotated[int, Option(ge=0, le=1 << 30, may_change=True)] = 0
    # number added to the logit of a token, by token id
    logit_bias: Annotated[
        dict[int, float],
        Option(
            most=MAX_BIASES,
            holds=_is_bias,
            allowed=sentence("range.logit_bias", most=MAX_BIASES),
            may_change=True,
        ),
    ] = {}
    # number of alternatives recorded with each token, if the engine's num_logprobs is smaller
    logprobs: Annotated[int | None, Option(ge=0, le=MAX_LOGPROBS, may_change=True)] = None
    # number of alternatives recorded with each prompt token; None: prompt tokens are not scored
    prompt_logprobs: Annotated[int | None, Option(ge=0, le=MAX_LOGPROBS)] = None

    def __post_init__(self) -> None:
        _check_kinds(self)

    @property
    def num_sequences(self) -> int:
        """Number of sequences that run for one prompt."""
        return self.beam_width if self.use_beam_search else self.best_of or self.n

    def checked(self) -> Self:
        """Return itself if every value is in range.

        Raises:
            ConfigError: a value is out of range.
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
        """Return every field by name, for the trace; `logprobs` only if it is set."""
        fields = {**asdict(self), "logit_bias": {str(i): bias for i, bias in self.logit_bias.items()}}
        if self.logprobs is None:  # older logs do not have the field
            del fields["logprobs"]
        return fields
