"""Converts vLLM's configuration to a trace header, and refuses configurations that cannot be recorded."""

from __future__ import annotations

import json
import logging
import math
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from engine import __version__
from engine.model.tokenizer import Tokenizer
from engine.observe.vllm_recorder.errors import WatchError
from engine.system.host import processor_name
from engine.trace.limits import MAX_BLOCKS
from engine.trace.records import (
    BlockGroup,
    Header,
    Machine,
    ModelFacts,
    NotWatched,
    TokenizerFacts,
    Watched,
)

logger = logging.getLogger("kvtheater")


class Settings(Struct, frozen=True, kw_only=True):
    """Pool size and the settings that determine why a request waits, by vLLM's names.

    `num_blocks`: excludes vLLM's null block.
    """

    block_size: int
    num_blocks: int
    kv_bytes_per_token: int
    max_num_seqs: int
    max_num_batched_tokens: int
    enable_prefix_caching: bool
    enable_chunked_prefill: bool
    scheduler_reserve_full_isl: bool
    scheduling_policy: Literal["fcfs", "priority"]


def refuse_unsupported(vllm_config: Any, kv_cache_config: Any) -> None:
    """Raise WatchError for a configuration that cannot be recorded."""
    parallel, scheduler = vllm_config.parallel_config, vllm_config.scheduler_config
    groups = kv_cache_config.kv_cache_groups
    refusals = {
        "async_scheduling=True schedules a step before the tokens of the last step are known; remove it": (
            scheduler.async_scheduling
        ),
        f"its {len(groups)} groups of layers share one block pool, but a trace has one pool per group": len(groups) > 1,
        "the model has no KV cache": not groups,
        "speculative decoding writes tokens that may be rejected": vllm_config.speculative_config is not None,
        "a KV connector moves blocks outside the recorded pool": vllm_config.kv_transfer_config is not None,
        "pipeline_parallel_size > 1 runs several steps at once": parallel.pipeline_parallel_size > 1,
        "context parallelism divides a block among ranks": (
            getattr(parallel, "decode_context_parallel_size", 1) > 1
            or getattr(parallel, "prefill_context_parallel_size", 1) > 1
        ),
        "data_parallel_size > 1 has several schedulers, but a log records one": parallel.data_parallel_size > 1,
        f"its pool has more than {MAX_BLOCKS:,} blocks": kv_cache_config.num_blocks - 1 > MAX_BLOCKS,
    }
    for sentence, applies in refusals.items():
        if applies:
            raise WatchError(f"this vLLM configuration cannot be recorded: {sentence}")


def settings_of(vllm_config: Any, kv_cache_config: Any) -> Settings:
    scheduler, cache = vllm_config.scheduler_config, vllm_config.cache_config
    return Settings(
        block_size=_block_size(kv_cache_config),
        num_blocks=kv_cache_config.num_blocks - 1,
        kv_bytes_per_token=_kv_bytes_per_token(kv_cache_config) * vllm_config.parallel_config.tensor_parallel_size,
        max_num_seqs=scheduler.max_num_seqs,
        max_num_batched_tokens=scheduler.max_num_batched_tokens,
        enable_prefix_caching=bool(cache.enable_prefix_caching),
        enable_chunked_prefill=bool(scheduler.enable_chunked_prefill),
        scheduler_reserve_full_isl=bool(scheduler.scheduler_reserve_full_isl),
        scheduling_policy=str(getattr(scheduler.policy, "value", scheduler.policy)),  # type: ignore[arg-type]
    )


def header_of(vllm_config: Any, kv_cache_config: Any, has_texts: bool) -> Header:
    settings, model = settings_of(vllm_config, kv_cache_config), vllm_config.model_config
    facts = model_facts(model, kv_cache_config)
    unknown: list[NotWatched] = ["arrays", "logprobs", "work"]
    if not has_texts:
        unknown.append("texts")
    if not facts.num_params:
        unknown.append("num_params")
    spec = kv_cache_config.kv_cache_groups[0].kv_cache_spec
    return Header(
        generator=f"kvtheater {__version__}",
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        model=facts,
        tokenizer=TokenizerFacts(name=facts.name if has_texts else "", vocab_size=facts.vocab_size, eos_token_ids=[]),
        engine={
            "strategy": "paged",
            "block_size": settings.block_size,
            "num_blocks": settings.num_blocks,
            "max_model_len": model.max_model_len,
            "max_num_seqs": settings.max_num_seqs,
            "max_num_batched_tokens": settings.max_num_batched_tokens,
            "enable_prefix_caching": settings.enable_prefix_caching,
            "enable_chunked_prefill": settings.enable_chunked_prefill,
            "scheduler_reserve_full_isl": settings.scheduler_reserve_full_isl,
            "scheduling_policy": settings.scheduling_policy,
            "enforce_eager": bool(model.enforce_eager),
            "kv_cache_dtype": str(vllm_config.cache_config.cache_dtype),
            "seed": model.seed or 0,
        },
        kv_bytes_per_token=settings.kv_bytes_per_token,
        machine=Machine(
            device=str(vllm_config.device_config.device_type),
            processor=processor_name(),
            num_threads=0,
            versions={"python": platform.python_version(), **_versions("vllm", "torch", "transformers")},
        ),
        block_groups=[
            BlockGroup(
                layers=list(range(facts.num_layers)),
                first_block=0,
                num_blocks=settings.num_blocks,
                window=getattr(spec, "sliding_window", None),
                kv_bytes_per_token=settings.kv_bytes_per_token,
            )
        ],
        watched=Watched(source=f"vLLM {_version()}", unknown=unknown, first_block_id=1),
    )


def model_facts(model: Any, kv_cache_config: Any) -> ModelFacts:
    """Return the model's facts. `num_params` is 0 unless the weights are in a local folder."""
    text, group = model.hf_text_config, kv_cache_config.kv_cache_groups[0]
    spec, num_layers = group.kv_cache_spec, len(group.layer_names)
    hidden, num_heads = int(text.hidden_size), int(text.num_attention_heads)
    head_dim = int(model.get_head_size())
    intermediate = next(
        (int(size) for name in ("intermediate_size", "n_inner", "ffn_dim") if (size := getattr(text, name, None))),
        4 * hidden,
    )
    return ModelFacts(
        name=Path(str(model.served_model_name or model.model)).name,
        architecture=str((model.hf_config.architectures or [""])[0]),
        num_params=_num_params(Path(str(model.model))),
        num_layers=num_layers,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_heads=num_heads,
        num_kv_heads=int(model.get_total_num_kv_heads()),
        head_dim=head_dim,
        v_head_dim=int(getattr(spec, "head_size_v", None) or head_dim),
        vocab_size=int(text.vocab_size),
        max_position=int(model.max_model_len),
        dtype=str(model.dtype).removeprefix("torch."),
        sliding_windows=[getattr(spec, "sliding_window", None)] * num_layers,
        tie_word_embeddings=bool(getattr(text, "tie_word_embeddings", False)),
    )


def token_bytes_of(model: Any) -> Callable[[int], bytes] | None:
    """Return a function from token id to bytes, or None if the model's tokenizer does not provide them."""
    try:
        from vllm.tokenizers import cached_tokenizer_from_config

        if model.skip_tokenizer_init:
            return None
        return Tokenizer(cached_tokenizer_from_config(model)).token_bytes
    except Exception as error:  # record without texts instead
        logger.warning("kvtheater: tokens are recorded without texts: %s", error)
        return None


def _block_size(kv_cache_config: Any) -> int:
    return int(kv_cache_config.kv_cache_groups[0].kv_cache_spec.block_size)


def _kv_bytes_per_token(kv_cache_config: Any) -> int:
    """Return the K and V bytes of a token in all layers on one rank, by vLLM's page size."""
    group = kv_cache_config.kv_cache_groups[0]
    return int(group.kv_cache_spec.page_size_bytes) * len(group.layer_names) // _block_size(kv_cache_config)


def _num_params(folder: Path) -> int:
    """Return the number of parameters in a folder, by the headers of its safetensors files."""
    total = 0
    for path in folder.glob("*.safetensors") if folder.is_dir() else ():
        with path.open("rb") as file:
            head = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        total += sum(math.prod(one["shape"]) for name, one in head.items() if name != "__metadata__")
    return total


def _version() -> str:
    import vllm

    return str(vllm.__version__)


def _versions(*packages: str) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = _version() if package == "vllm" else version(package)
        except PackageNotFoundError:
            continue
    return found
