"""Parses the arguments of a `generate` call, and refuses calls that cannot be recorded."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor

RECORDED_MODES = ("greedy_search", "sample")  # generation modes with one pass per token and no rollback
CACHE_NAMES = ("cache", "past_key_values")  # keyword of the cache; the second before transformers 5.24
# Inputs that are no fields of GenerationConfig, and change neither the computed tokens nor their cache positions.
HARMLESS = (
    "attention_mask", *CACHE_NAMES, "logits_processor", "stopping_criteria", "streamer", "synced_gpus",
    "prefix_allowed_tokens_fn", "tokenizer", "token_type_ids", "generation_config",
)  # fmt: skip


def cache_of(arguments: dict[str, Any]) -> Any:
    """Return the cache among the keywords of `generate` or of a forward pass, or None."""
    return next((arguments[name] for name in CACHE_NAMES if arguments.get(name) is not None), None)


class UnsupportedCall(Exception):
    """The `generate` call cannot be recorded. The message gives the reason in one sentence."""


class GenerateCall(NamedTuple):
    """Arguments of a `generate` call.

    `prompts`: token ids of each row without padding. `width`: number of columns of the padded prompt.
    """

    prompts: list[list[int]]
    width: int
    max_tokens: int
    eos_token_ids: set[int]


def read_call(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> GenerateCall:
    """Read the arguments of `model.generate`.

    Raises:
        UnsupportedCall: an argument is not supported.
    """
    arguments = dict(zip(("inputs", "generation_config"), args, strict=False)) | kwargs
    config, rest = _config(model, arguments)
    if len(args) > 2 or model.config.is_encoder_decoder:
        raise UnsupportedCall("only decoder models with inputs given by name can be recorded")
    mode = str(config.get_generation_mode(arguments.get("assistant_model")).value)
    if mode not in RECORDED_MODES or config.use_cache is False:
        kind = mode.replace("_", " ") if mode not in RECORDED_MODES else "use_cache=False (no cache)"
        raise UnsupportedCall(f"generate was called for {kind}; only greedy search and sampling can be recorded")
    prompt = rest.pop("inputs", None)
    ids = rest.pop("input_ids", None)
    prompt = ids if prompt is None else prompt
    unsupported = sorted(name for name, value in rest.items() if name not in HARMLESS and value is not None)
    if unsupported or not isinstance(prompt, Tensor) or prompt.is_floating_point() or prompt.ndim != 2:
        inputs = ", ".join(unsupported) or "no input_ids of shape [batch, tokens]"
        raise UnsupportedCall(f"generate was given {inputs}, which cannot be recorded; give input_ids")
    cache = cache_of(arguments)
    if cache is not None and (not hasattr(cache, "get_seq_length") or cache.get_seq_length()):
        raise UnsupportedCall("generate was given a cache with tokens; only an empty one can be recorded")
    if prompt.shape[0] > 1 and (arguments.get("stopping_criteria") or config.stop_strings):
        raise UnsupportedCall("a stop string or criterion that ends rows one by one cannot be recorded; give one row")
    limit = config.max_new_tokens or max(1, (config.max_length or 20) - prompt.shape[1])
    eos = config.eos_token_id
    return GenerateCall(
        prompts=_without_padding(prompt, arguments.get("attention_mask"), config),
        width=prompt.shape[1],
        max_tokens=int(limit),
        eos_token_ids={eos} if isinstance(eos, int) else set(eos or ()),
    )


def _config(model: Any, arguments: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the effective generation config of a call, and the arguments that are not among its fields."""
    own = model.generation_config
    config = copy.deepcopy(arguments.get("generation_config") or own)
    for name, value in vars(own).items():
        if getattr(config, name, None) is None:
            setattr(config, name, value)
    named = {name: value for name, value in arguments.items() if hasattr(config, name)}
    for name, value in named.items():
        setattr(config, name, value)
    return config, {name: value for name, value in arguments.items() if name not in named}


def _without_padding(prompt: Tensor, mask: Tensor | None, config: Any) -> list[list[int]]:
    """Return each row's tokens. Without a mask, transformers derives one from the padding token."""
    if mask is None:
        pad, eos = config.pad_token_id, config.eos_token_id
        if pad is not None and bool((prompt == pad).any()) and pad not in (eos if isinstance(eos, list) else [eos]):
            raise UnsupportedCall("the prompt contains the padding token without an attention_mask; give one")
        return [list(map(int, row)) for row in prompt.tolist()]
    visible = mask.bool()
    if mask.shape != prompt.shape or bool((visible[:, :-1] & ~visible[:, 1:]).any()) or not bool(visible[:, -1].all()):
        raise UnsupportedCall("the attention_mask hides more than padding on the left; only that can be recorded")
    return [torch.masked_select(row, one).tolist() for row, one in zip(prompt, visible, strict=True)]
