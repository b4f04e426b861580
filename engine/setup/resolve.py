"""Resolution of settings against a model: fills in unset values, and rejects impossible combinations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from engine.cache.ablate_settings import Off, read_ablation, refusal
from engine.cache.attention_span import AttentionSpan, reaches_of
from engine.cache.block_groups import Demands, GroupPlan, States, plan_groups, state_group
from engine.config import MAX_POOL_SLOTS, TRANSFER_FAULTS, ConfigError, EngineConfig
from engine.options.check import out_of_range
from engine.options.refusal import joined, sentence
from engine.setup.pool_size import MAX_BYTES, default_num_blocks, slots_that_fit
from engine.speculate.settings import speculative_of
from engine.trace.limits import MAX_BLOCKS
from engine.trace.records import ModelFacts


class Resolved(NamedTuple):
    """Settings resolved against a model, and derived values."""

    config: EngineConfig  # no required field is None; resolving it again gives the same settings
    num_blocks: int  # number of blocks of the pool of full attention
    max_model_len: int  # maximum number of tokens of a sequence, prompt and output
    swap_space: int  # blocks of CPU memory per group; 0: no swapping
    reaches: list[AttentionSpan]  # attention span by layer
    groups: list[GroupPlan]  # groups of layers with a common block table, and their pools


def resolve_for(config: EngineConfig, facts: ModelFacts) -> Resolved:
    """Resolve settings against the model with these facts.

    Raises:
        ConfigError: see `resolve`, or the strategy does not support the model.
    """
    if facts.latent_dim and config.by_sequence:
        raise ConfigError(sentence("latent.strategy", strategy=config.strategy, name=facts.name))
    if config.forget_policy and (facts.latent_dim or facts.state_bytes):
        stored = sentence("kept.latents" if facts.latent_dim else "kept.states")
        raise ConfigError(sentence("forget.model", name=facts.name, kept=stored))
    if (offs := _offs(config)) and (wrong := refusal(offs, facts)):
        raise ConfigError(wrong)
    slots = slots_that_fit(facts, config.kv_cache_dtype)
    return resolve(config, facts.max_position, facts.sliding_windows, slots, facts.state_bytes)


def resolve(
    config: EngineConfig,
    max_position: int,
    sliding_windows: Sequence[int | None] = (),
    max_slots: int | None = None,
    state_bytes: int = 0,
) -> Resolved:
    """Check the settings against a model of `max_position` positions and fill in derived values.

    `sliding_windows`: the window of each layer; by default one layer with full attention.

    `state_bytes`: size of a sequence's state in all recurrent layers; 0: there are none. A model with states has a
    group of blocks for them, and supports only the strategy `paged`.

    If num_blocks is None, it is set to the default pool size, within `max_slots` (pool_size.py). If swap_space is None,
    it is set to the pool's size under preemption by swap, else to 0. If max_model_len is None, it is set to the maximum
    that model and pool support (any length, if every layer has a window that fits).

    `contiguous` has the same number of slots as `paged`, for a fair comparison, but divides them into blocks of
    max_model_len. `contiguous`, `first_fit` and `none` share no prefixes.

    Raises:
        ConfigError: a setting is impossible.
    """
    if wrong := out_of_range(config):
        raise ConfigError(wrong)
    _check_instances(config)
    config = _with_forgetting(config)
    if speculative_of(config) and state_bytes:
        raise ConfigError(sentence("states.drafts"))
    if config.num_blocks is None:
        longest = min(config.max_model_len or max_position, max_position)
        config = replace(config, num_blocks=default_num_blocks(config.block_size, longest, max_slots))
    if _num_slots(config) > MAX_POOL_SLOTS:
        raise ConfigError(sentence("pool.slots", pool=_pool(config), most=MAX_POOL_SLOTS))
    if config.by_sequence and config.kv_cache_dtype != "auto":
        raise ConfigError(sentence("strategy.dtype", strategy=config.strategy))
    reaches = reaches_of(sliding_windows or [None], config.policy)
    max_model_len = _max_model_len(config, reaches, max_position)
    config = replace(_with_block_layout(config, max_model_len), max_model_len=max_model_len)
    if config.strategy != "paged":
        config = replace(config, enable_prefix_caching=False)
    groups = _groups(config, reaches)
    if state_bytes:
        config = _with_checkpoints(config)
        demands = Demands(config.max_num_seqs, config.max_num_batched_tokens)
        first_block = groups[-1].first_block + groups[-1].num_blocks
        groups.append(state_group(_states(config, state_bytes), first_block, demands))
    num_blocks = sum(group.num_blocks for group in groups)
    if num_blocks > MAX_BLOCKS:
        values = {"value": config.num_blocks, "n": num_blocks, "groups": _of_groups(groups)}
        raise ConfigError(sentence("num_blocks", **values, most=MAX_BLOCKS))
    swap_space = _swap_space(config, groups)
    config = replace(config, swap_space=swap_space)
    return Resolved(config, _num_blocks(config), max_model_len, swap_space, reaches, groups)


def _with_forgetting(config: EngineConfig) -> EngineConfig:
    """Return the settings with those of `forget_policy` filled in, and without incompatible defaults.

    Raises:
        ConfigError: another setting is incompatible.
    """
    settings = config.forgetting
    if settings is None:
        return config
    incompatible = {
        "strategy": config.strategy != "paged",
        "attention_window": config.attention_window is not None,
        "prefill, decode and mixed": config.num_instances > 0,
        "fault": config.fault is not None,
        "speculative_config": config.speculative_config is not None,
    }
    if wrong := [name for name, is_set in incompatible.items() if is_set]:
        raise ConfigError(sentence("forget.beside", wrong=joined(wrong)))
    minimum = settings.sinks + settings.recent
    if settings.budget < minimum:
        raise ConfigError(sentence("forget.budget", least=minimum, value=settings.budget))
    if settings.policy == "snapkv" and (settings.recent < 1 or settings.pool % 2 == 0):
        raise ConfigError(sentence("forget.snapkv", recent=settings.recent, pool=settings.pool))
    return replace(
        config,
        forget_budget=settings.budget,
        forget_sinks=settings.sinks,
        forget_recent=settings.recent,
        forget_every=settings.every,
        forget_pool=settings.pool,
        forget_compare=bool(config.forget_compare),
        # blocks with forgotten keys cannot be shared, and only eager attention can mask them
        enable_prefix_caching=False,
        enforce_eager=True,
        max_cudagraph_capture_size=0,
    )


def _offs(config: EngineConfig) -> list[Off]:
    """Return the heads and layers of `ablate`.

    Raises:
        ConfigError: it is malformed, or incompatible with other settings.
    """
    try:
        offs = read_ablation(config.ablate)
    except ValueError as error:
        raise ConfigError(error.args[0]) from None
    incompatible = {
        f"strategy {config.strategy}": config.by_sequence is not None,
        "prefill, decode and mixed": config.num_instances > 0,
        "fault": config.fault is not None,
        "forget_policy": config.forget_policy is not None,
        "speculative_config": config.speculative_config is not None,
        "preemption_mode swap": config.preemption_mode == "swap",
    }
    if offs and (wrong := [name for name, is_set in incompatible.items() if is_set]):
        raise ConfigError(sentence("ablate.beside", wrong=joined(wrong)))
    return offs


def _with_checkpoints(config: EngineConfig) -> EngineConfig:
    """Return the settings with `mamba_block_size` filled in.

    Raises:
        ConfigError: a setting is incompatible with states.
    """
    if config.strategy != "paged":
        raise ConfigError(sentence("states.strategy", strategy=config.strategy))
    if config.prefill or config.decode:
        raise ConfigError(sentence("states.apart"))
    every = 4 * config.block_size if config.mamba_block_size is None else config.mamba_block_size
    if every % config.block_size:
        raise ConfigError(sentence("states.multiple", size=config.block_size, value=every))
    return replace(config, mamba_block_size=every)


def _states(config: EngineConfig, state_bytes: int) -> States:
    """Return the plan of states: a checkpoint per `mamba_block_size` tokens of the pool, within MAX_BYTES."""
    assert config.mamba_block_size is not None
    checkpoints = min(_num_slots(config) // config.mamba_block_size, MAX_BYTES // state_bytes)
    return States(state_bytes, config.mamba_block_size, checkpoints if config.enable_prefix_caching else 0)


def _check_instances(config: EngineConfig) -> None:
    if (config.fault in TRANSFER_FAULTS) != (config.num_instances > 0 and config.fault is not None):
        where = "fault.one" if config.num_instances else "fault.several"
        raise ConfigError(sentence(where, fault=config.fault))
    if not config.num_instances:
        return
    if not config.decode + config.mixed:
        raise ConfigError(sentence("instances.decode"))
    if not config.prefill + config.mixed:
        raise ConfigError(sentence("instances.prefill"))
    if config.strategy != "paged":
        raise ConfigError(sentence("instances.strategy"))


def _max_model_len(config: EngineConfig, reaches: Sequence[AttentionSpan], max_position: int) -> int:
    num_slots = _num_slots(config)
    max_model_len = config.max_model_len
    if max_model_len is None:
        max_model_len = max_position if _fits_any_length(config, reaches) else min(max_position, num_slots)
        if max_model_len < 2:
            raise ConfigError(sentence("pool.too_small", pool=_pool(config)))
    if not 2 <= max_model_len <= max_position:
        raise ConfigError(sentence("max_model_len", most=max_position, value=max_model_len))
    if config.block_size > max_model_len:
        raise ConfigError(sentence("block_size", size=config.block_size, most=max_model_len))
    if not config.enable_chunked_prefill and config.max_num_batched_tokens < max_model_len:
        raise ConfigError(sentence("chunked_prefill", value=config.max_num_batched_tokens, least=max_model_len))
    return max_model_len


def _fits_any_length(config: EngineConfig, reaches: Sequence[AttentionSpan]) -> bool:
    """Return whether a sequence of any length fits into the pool."""
    step, size = config.tokens_a_step, config.block_size
    return step is not None and all(
        group.retention is not None and group.retention.max_blocks(step, size) <= group.num_blocks
        for group in _groups(config, reaches)
    )


def _with_block_layout(config: EngineConfig, max_model_len: int) -> EngineConfig:
    """Return the settings with the block layout of strategies without paging.

    A block is an entire sequence if it is stored in one piece of fixed size, and one slot if the piece grows by a token
    per step.
    """
    num_slots = _num_slots(config)
    if config.strategy in ("concat", "dynamic"):
        return replace(config, block_size=1, num_blocks=num_slots)
    if config.strategy not in ("contiguous", "static"):
        return config
    if num_slots < max_model_len:
        raise ConfigError(sentence("reserved", strategy=config.strategy, most=max_model_len, slots=num_slots))
    return replace(config, block_size=max_model_len, num_blocks=num_slots // max_model_len)


def _groups(config: EngineConfig, reaches: Sequence[AttentionSpan]) -> list[GroupPlan]:
    demands = Demands(config.max_num_seqs, config.max_num_batched_tokens)
    split = config.strategy == "paged"
    groups = plan_groups(reaches, config.policy, _num_blocks(config), config.block_size, demands, split)
    if config.strategy != "first_fit" and not config.by_sequence:
        return groups
    # a piece is only freed completely
    return [group._replace(contiguous=config.strategy == "first_fit", retention=None) for group in groups]


def _swap_space(config: EngineConfig, groups: Sequence[GroupPlan]) -> int:
    # "none" and "first_fit" never preempt; caches per sequence are dropped
    if config.preemption_mode == "recompute" or config.by_sequence or config.strategy in ("none", "first_fit"):
        return 0
    swap_space = _num_blocks(config) if config.swap_space is None else config.swap_space
    limit = min(MAX_POOL_SLOTS // config.block_size, MAX_BLOCKS // len(groups))
    if not 0 <= swap_space <= limit:
        raise ConfigError(sentence("swap_space", most=limit, groups=_of_groups(groups)))
    return swap_space


def _num_blocks(config: EngineConfig) -> int:
    assert config.num_blocks is not None  # `resolve` has set it
    return config.num_blocks


def _num_slots(config: EngineConfig) -> int:
    return _num_blocks(config) * config.block_size


def _pool(config: EngineConfig) -> str:
    return sentence("pool", blocks=config.num_blocks, size=config.block_size)


def _of_groups(groups: Sequence[GroupPlan]) -> str:
    return sentence("groups", n=len(groups)) if len(groups) > 1 else ""
