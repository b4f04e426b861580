"""Settings of an engine and of a request. Names follow vLLM where it has one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from msgspec import Struct
from msgspec.structs import asdict, replace

from engine.cache.block_groups import Demands, GroupPlan, plan_groups
from engine.cache.reach import WindowPolicy, reaches_of
from engine.trace.events import PreemptionMode, Setting
from engine.trace.limits import MAX_BLOCKS

Strategy = Literal["paged", "contiguous", "none"]
KVCacheDtype = Literal["auto", "float32", "float16", "bfloat16", "fp8", "fp8_e4m3", "int8", "int4"]
FaultName = Literal[
    "slot_off_by_one",
    "no_copy_at_shared_write",
    "stale_hash_after_reallocation",
    "output_lost_at_preemption",
    "missing_causal_mask",
    "rope_restarted_at_chunk",
]
MAX_POOL_SLOTS = 1 << 24
MAX_SEED = (1 << 53) - 1  # exact as a double, as who reads the log may have it
SEEDS = f"between {-MAX_SEED} and {MAX_SEED}"


class ConfigError(ValueError):
    """A setting that cannot work; the message is one sentence that says which and what would."""


class EngineConfig(Struct, frozen=True, kw_only=True):
    """How the cache is laid out and how steps are scheduled.

    `strategy`: `paged` is the paged KV cache; `contiguous` is the same mechanism with one block of `max_model_len` per
    sequence; `none` keeps nothing between steps and recomputes every token of a sequence at every step.

    `attention_window` and `attention_sinks` are a policy over any model, after StreamingLLM (Xiao et al. 2023, arXiv
    2309.17453): every layer's query sees the first `attention_sinks` tokens and the last `attention_window` ones,
    itself among them, and the blocks between are released. A layer whose own sliding window is no wider keeps that.
    With `sliding_window_pattern` n the policy leaves every n-th layer alone, which makes a hybrid of any model, built
    as Gemma 3 (n = 6) and GPT-OSS (n = 2) are: layers that see alike then have a pool and block tables of their own.
    Unlike the paper's, positions stay absolute: keys keep the rotation that they were cached with, and the distance
    between a query and the sinks grows with the text, where the paper numbers positions within the cache. So nothing is
    rotated again, a sequence ends at the model's last position, and queries stand further from the sinks than there.
    """

    strategy: Strategy = "paged"
    block_size: int = 16  # slots a block, tokens
    num_blocks: int = 64  # blocks in the pool
    max_model_len: int | None = None  # tokens, prompt and output; None = what the model and the pool can hold
    max_num_seqs: int = 16  # sequences running at once
    max_num_batched_tokens: int = 512  # token budget of a step
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    scheduling_policy: Literal["fcfs", "priority"] = "fcfs"
    preemption_mode: PreemptionMode = "recompute"  # swap: computed tokens go to CPU memory and come back
    swap_space: int | None = None  # blocks of CPU memory for that; None = as many as the pool has
    kv_cache_dtype: KVCacheDtype = "auto"  # what K and V are stored as; auto = the model's own, fp8 = fp8_e4m3
    attention_window: int | None = None  # tokens; every layer's query sees no more than the last so many; None = all
    attention_sinks: int | None = None  # tokens; the first so many stay in sight beside that window
    sliding_window_pattern: int | None = None  # every n-th layer is left without that window; None = no layer is
    enforce_eager: bool = False  # never the compiled forward pass: equal inputs then give the same log (trace.compare)
    fault: FaultName | None = None  # a mistake put in on purpose (`faults.make_engine`); None = a healthy engine
    num_logprobs: int = 5  # alternatives recorded with each chosen token
    seed: int = 0

    def resolved(self, max_position: int, sliding_windows: Sequence[int | None] = ()) -> Self:
        """Check the settings against a model of `max_position` positions and fill in what follows. Idempotent.

        `sliding_windows`: of the model's layers; not given, the model is taken for one whose layers see all keys.

        swap_space None becomes the pool's size under preemption by swap; it is 0 where nothing is ever swapped.
        max_model_len None becomes what model and pool can both hold (any length, where every layer has a window that
        fits). Contiguous keeps the pool's size in slots and cuts
        it into blocks of max_model_len, so that a race against paged is fair; it and `none` share no prefixes.

        Raises:
            ConfigError: a setting that cannot work.
        """
        for name in ("block_size", "num_blocks", "max_num_seqs", "max_num_batched_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 <= self.num_logprobs <= 20:
            raise ConfigError(f"num_logprobs must be between 0 and 20, not {self.num_logprobs}")
        if self.attention_window is None and self.attention_sinks is not None:
            raise ConfigError("attention_sinks stay in sight beside a window: set attention_window too")
        if self.attention_window is not None and not 1 <= self.attention_window <= MAX_POOL_SLOTS:
            raise ConfigError(f"attention_window must be between 1 and {MAX_POOL_SLOTS}, not {self.attention_window}")
        if not 0 <= (self.attention_sinks or 0) <= MAX_POOL_SLOTS:
            raise ConfigError(f"attention_sinks must be between 0 and {MAX_POOL_SLOTS}, not {self.attention_sinks}")
        if self.sliding_window_pattern is not None:
            if self.attention_window is None:
                raise ConfigError("sliding_window_pattern says which layers have no window: set attention_window too")
            if not 1 <= self.sliding_window_pattern <= 1024:
                raise ConfigError(
                    f"sliding_window_pattern must be between 1 and 1024, not {self.sliding_window_pattern}"
                )
        if not _is_seed(self.seed):
            raise ConfigError(f"seed must be {SEEDS}, not {self.seed}")
        num_slots = self.num_blocks * self.block_size
        if num_slots > MAX_POOL_SLOTS:
            raise ConfigError(
                f"a pool of {self.num_blocks} blocks x {self.block_size} slots is over {MAX_POOL_SLOTS} slots"
            )
        max_model_len = self.max_model_len
        if max_model_len is None:
            fits = self._holds_any_length(sliding_windows)
            max_model_len = max_position if fits else min(max_position, num_slots)
            if max_model_len < 2:
                raise ConfigError(
                    f"a pool of {self.num_blocks} blocks x {self.block_size} slots has no room for a prompt token and "
                    "one to generate: choose more blocks, or larger ones"
                )
        if not 2 <= max_model_len <= max_position:
            raise ConfigError(
                f"max_model_len must be between 2 (a prompt token and one to generate) and the model's {max_position}, "
                f"not {max_model_len}"
            )
        if self.block_size > max_model_len:
            raise ConfigError(f"block_size {self.block_size} does not fit max_model_len {max_model_len}")
        if not self.enable_chunked_prefill and self.max_num_batched_tokens < max_model_len:
            raise ConfigError(
                f"without chunked prefill max_num_batched_tokens ({self.max_num_batched_tokens}) must be at least "
                f"max_model_len ({max_model_len}), or a long prompt could never be scheduled"
            )
        config = replace(self, max_model_len=max_model_len)
        if self.strategy == "contiguous":
            if num_slots < max_model_len:
                raise ConfigError(
                    f"contiguous reserves {max_model_len} slots a sequence (max_model_len), the pool has {num_slots}"
                )
            config = replace(config, block_size=max_model_len, num_blocks=num_slots // max_model_len)
        if self.strategy != "paged":
            config = replace(config, enable_prefix_caching=False)
        groups = config.block_groups(sliding_windows or [None])
        num_blocks = sum(group.num_blocks for group in groups)
        if num_blocks > MAX_BLOCKS:
            raise ConfigError(
                f"num_blocks {self.num_blocks} makes {num_blocks} blocks{_of_groups(len(groups))}, and a log holds "
                f"{MAX_BLOCKS} at most: choose fewer blocks, and larger ones for as many slots"
            )
        if self.preemption_mode == "recompute" or self.strategy == "none":
            return replace(config, swap_space=0)
        swap_space = config.num_blocks if self.swap_space is None else self.swap_space
        most = min(MAX_POOL_SLOTS // config.block_size, MAX_BLOCKS // len(groups))
        if not 0 <= swap_space <= most:
            raise ConfigError(f"swap_space must be between 0 and {most} blocks{_of_groups(len(groups))}")
        return replace(config, swap_space=swap_space)

    @property
    def policy(self) -> WindowPolicy | None:
        """What `attention_window` and its companions let a query see; None: everything."""
        if self.attention_window is None:
            return None
        return WindowPolicy(self.attention_window, self.attention_sinks or 0, self.sliding_window_pattern)

    @property
    def tokens_a_step(self) -> int | None:
        """How many of a sequence's tokens one step takes at most; None: all that are missing, however many."""
        return self.max_num_batched_tokens if self.enable_chunked_prefill and self.strategy != "none" else None

    def block_groups(self, sliding_windows: Sequence[int | None]) -> list[GroupPlan]:
        """The groups of a model's layers and their pools, given each layer's own window."""
        reaches = reaches_of(sliding_windows, self.policy)
        demands = Demands(self.max_num_seqs, self.max_num_batched_tokens)
        split = self.strategy == "paged"
        return plan_groups(reaches, self.policy, self.num_blocks, self.block_size, demands, split)

    def _holds_any_length(self, sliding_windows: Sequence[int | None]) -> bool:
        """Whether the pool has room for what any sequence holds at once, however long it is."""
        step, size = self.tokens_a_step, self.block_size
        return step is not None and all(
            group.retention is not None and group.retention.most_blocks(step, size) <= group.num_blocks
            for group in self.block_groups(sliding_windows or [None])
        )

    def as_map(self) -> dict[str, str | int | float | bool | None]:
        """Every field by name, for the trace's header."""
        return asdict(self)


def _of_groups(number: int) -> str:
    return f" in {number} groups of layers" if number > 1 else ""


class SamplingParams(Struct, frozen=True, kw_only=True):
    """How the next token is chosen, and how many outputs there are. temperature 0 is greedy.

    The order of operations: repetition penalty, logit bias, min_tokens, temperature, top-k, top-p, min-p, then one
    draw. Beam search keeps the `beam_width` most probable sequences instead, under the distribution after min_tokens.

    The names are vLLM's; `use_beam_search` and its fields those of its BeamSearchParams.
    """

    temperature: float = 0.0
    top_k: int = 0  # 0 = off
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0  # CTRL, https://arxiv.org/abs/1909.05858, section 4.1
    seed: int | None = None  # None: derived from the engine's seed and which of its requests this is
    max_tokens: int | None = None  # None: as many as fit the model and the pool
    stop: list[str] = []
    stop_token_ids: list[int] = []
    ignore_eos: bool = False
    n: int = 1  # outputs: samples with a seed each, or the best beams
    best_of: int | None = None  # samples to draw, of which the n with the highest cumulative logprob are the outputs
    use_beam_search: bool = False
    beam_width: int = 4  # sequences kept
    length_penalty: float = 1.0  # a beam's score = cumulative logprob / (output tokens ** length_penalty)
    min_tokens: int = 0  # before so many output tokens nothing ends a sequence
    logit_bias: dict[int, float] = {}  # token id -> added to its logit
    prompt_logprobs: int | None = None  # alternatives recorded with each prompt token; None: nothing is recorded

    @property
    def num_sequences(self) -> int:
        """Sequences that run for one prompt."""
        return self.beam_width if self.use_beam_search else self.best_of or self.n

    def checked(self) -> Self:
        """Itself, when every value is in range.

        Raises:
            ConfigError: one is not.
        """
        ranges: list[tuple[str, bool, str]] = [
            ("temperature", 0 <= self.temperature <= 100, "between 0 and 100"),
            ("top_k", self.top_k >= 0, "0 (off) or more"),
            ("top_p", 0 < self.top_p <= 1, "over 0 and at most 1"),
            ("min_p", 0 <= self.min_p <= 1, "between 0 and 1"),
            ("repetition_penalty", 0 < self.repetition_penalty <= 100, "over 0 and at most 100"),
            ("seed", self.seed is None or _is_seed(self.seed), SEEDS),
            ("max_tokens", self.max_tokens is None or self.max_tokens >= 1, "at least 1"),
            ("stop", len(self.stop) <= 16 and all(self.stop), "at most 16 strings, none empty"),
            ("n", self.n >= 1, "at least 1"),
            ("best_of", self.best_of is None or self.best_of >= self.n, f"at least n ({self.n})"),
            ("beam_width", self.beam_width >= 1, "at least 1"),
            ("length_penalty", -10 <= self.length_penalty <= 10, "between -10 and 10"),
            ("min_tokens", 0 <= self.min_tokens <= (self.max_tokens or 1 << 30), "between 0 and max_tokens"),
            ("logit_bias", _is_bias(self.logit_bias), "at most 300 token ids with numbers between -100 and 100"),
            ("prompt_logprobs", 0 <= (self.prompt_logprobs or 0) <= 20, "between 0 and 20"),
        ]
        for name, holds, allowed in ranges:
            if not holds:
                raise ConfigError(f"{name} must be {allowed}, not {getattr(self, name)!r}")
        if self.use_beam_search:
            if self.n > self.beam_width or self.best_of is not None:
                raise ConfigError(
                    f"beam search returns at most beam_width ({self.beam_width}) outputs and takes no best_of"
                )
            if self.temperature != 0 or self.stop:
                raise ConfigError("beam search compares probabilities: temperature must be 0, stop must be empty")
        elif self.num_sequences > 1 and self.temperature == 0:
            raise ConfigError("with temperature 0 all samples would be equal: set a temperature, or use_beam_search")
        return self

    def as_map(self) -> dict[str, Setting]:
        """Every field by name, for the trace."""
        return {**asdict(self), "logit_bias": {str(i): bias for i, bias in self.logit_bias.items()}}


def _is_seed(seed: int) -> bool:
    return -MAX_SEED <= seed <= MAX_SEED


def _is_bias(logit_bias: dict[int, float]) -> bool:
    return len(logit_bias) <= 300 and all(i >= 0 and -100 <= bias <= 100 for i, bias in logit_bias.items())
