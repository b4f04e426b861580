"""Model facts for the trace and the accounting, read from the configuration and from a probe run."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from engine.cache.kv_store import LayerShape
from engine.model.attention import NUMBER_AMONG_KEYS, AttentionRefused, ProbeContext, attending
from engine.model.errors import ModelError
from engine.model.latents import Latents
from engine.model.packed_linears import num_weights
from engine.model.packed_place import PackedPlaces
from engine.model.state_layers import (
    StateLayers,
    StateRefused,
    cache_argument,
    cache_layers,
    find_states,
    has_keys,
    has_state,
)
from engine.options.refusal import sentence
from engine.trace.records import LayerKeeps, ModelFacts

SUPPORTED_LAYER_TYPES = {"full_attention", "sliding_attention"}
# Additional types in models with states: layers with a state, with or without attention, and layers with neither.
STATE_LAYER_TYPES = {"linear_attention", "conv", "hybrid", "hybrid_sliding", "moe", "mlp"}
PROBED = 13  # number of tokens; unlikely to equal a number of heads, experts or frequencies
UNBOUNDED_POSITIONS = 32768  # used if the configuration states no limit


def refuse_unsupported(model_class: Any, config: Any) -> None:
    """Raise ModelError for an unsupported family, before its weights are loaded.

    `model_class` is the transformers class, `config` its configuration.
    """
    name = model_class.__name__
    if getattr(config, "is_encoder_decoder", False):
        raise ModelError(sentence("model.encoder_decoder", name=name))
    states = has_states(config)
    if states and not _layers_with_keys(config):
        raise ModelError(sentence("model.states_alone", name=name))
    if not getattr(model_class, "_supports_attention_backend", False) and not (states and _uses_interface(model_class)):
        raise ModelError(sentence("model.no_interface", name=name))
    supported = SUPPORTED_LAYER_TYPES | (STATE_LAYER_TYPES if states else set())
    unsupported = set(getattr(config.get_text_config(), "layer_types", None) or []) - supported
    if unsupported:
        raise ModelError(sentence("model.layer_types", name=name, types=", ".join(sorted(unsupported))))


def has_states(config: Any) -> bool:
    """Return whether any layer of the model has a state."""
    try:
        return any(map(has_state, cache_layers(config)))
    except Exception:  # an unknown layer type, which is refused by its name
        return False


def _uses_interface(model_class: Any) -> bool:
    """Return whether the model's code uses transformers' attention interface without declaring it."""
    return hasattr(sys.modules.get(model_class.__module__), "ALL_ATTENTION_FUNCTIONS")


def probe(module: Any, device: torch.device) -> ProbeContext:
    """Run a few tokens through the model and record the arguments of every layer's attention.

    Raises:
        ModelError: the model does not run packed tokens, or a layer does not call the attention function exactly once,
            or its attention is not supported by a paged KV cache.
    """
    name = type(module).__name__
    config = module.config.get_text_config()
    dependent: set[int] = set()  # layers whose attention depends on a token's place in the packed row
    tokens = torch.arange(PROBED, device=device)[None]
    try:
        with torch.inference_mode(), PackedPlaces(module, PROBED) as places:

            def check(layer: int, arrays: tuple[Tensor, ...]) -> None:
                dependent.update([layer] * any(map(places.is_marked, arrays)))

            context = ProbeContext(on_layer=check)
            with attending(context):
                module(input_ids=tokens % config.vocab_size, position_ids=tokens, use_cache=False)
    except AttentionRefused as error:
        raise ModelError(sentence("model.attention", name=name, error=error)) from error
    except Exception as error:
        raise ModelError(sentence("model.packed", name=name, reason=_reason(error))) from error
    layers, calls = config.num_hidden_layers, Counter(call.layer for call, *_ in context.calls)
    expected = _layers_with_keys(module.config)
    if set(calls) != set(expected):
        raise ModelError(
            sentence(
                "model.layers_called",
                name=name,
                number=len(calls),
                layers=layers,
                which=sentence("model.layers_with_keys" if len(expected) < layers else "model.layers_all"),
            )
        )
    if several := [layer for layer, count in calls.items() if count > 1]:
        raise ModelError(sentence("model.layer_twice", name=name, layer=min(several), times=calls[min(several)]))
    if dependent:
        raise ModelError(sentence("model.packed_places", name=name, layer=min(dependent)))
    context.calls.sort(key=lambda entry: entry[0].layer)
    _check_windows(name, config, {call.layer: call.sliding_window for call, *_ in context.calls})
    _number_layers(module, context)
    return context


def _number_layers(module: Any, context: ProbeContext) -> None:
    """Number the layers with keys from 0 on, if layers without keys are between them."""
    numbers = {call.layer: number for number, (call, *_) in enumerate(context.calls)}
    context.layers = list(numbers)
    if all(layer == number for layer, number in numbers.items()):
        return
    context.calls = [(call._replace(layer=numbers[call.layer]), q, k, v) for call, q, k, v in context.calls]
    for part in module.modules():
        layer = part.__dict__.get("layer_idx")
        if layer in numbers:
            setattr(part, NUMBER_AMONG_KEYS, numbers[layer])


def _layers_with_keys(config: Any) -> list[int]:
    """Return the layers that attend: all of them, unless the model has layers with a state or without a cache."""
    if not has_states(config):
        return list(range(config.get_text_config().num_hidden_layers))
    return [index for index, layer in enumerate(cache_layers(config)) if has_keys(layer)]


def probe_states(module: Any, device: torch.device) -> StateLayers | None:
    """Run a few tokens with transformers' cache and record the modules that store states in it; None if none does.

    Raises:
        ModelError: the states cannot be served in packed steps.
    """
    if not has_states(module.config):
        return None
    name, config = type(module).__name__, module.config.get_text_config()
    tokens = torch.arange(PROBED, device=device)[None] % config.vocab_size
    argument = cache_argument(list(inspect.signature(module.forward).parameters))

    def run(cache: Any, attends: Callable[[], None]) -> None:
        caches = {"past_key_values" if argument is None else argument: cache}
        with torch.inference_mode(), attending(ProbeContext(on_layer=lambda *_: attends())):
            module(input_ids=tokens, use_cache=True, **caches)

    try:
        return find_states(module, PROBED, run)
    except StateRefused as error:
        raise ModelError(sentence("model.states", name=name, error=error)) from error
    except Exception as error:
        raise ModelError(sentence("model.states_code", name=name, reason=_reason(error))) from error


def _reason(error: Exception) -> str:
    """Return the message of an external error on one line; a one-word message is prefixed by the error's type."""
    words = " ".join(str(error).split())
    return (words if " " in words else f"{type(error).__name__} {words}").strip()[:200]


def _check_windows(name: str, config: Any, windows: dict[int, int | None]) -> None:
    """Raise ModelError if the model has a sliding window that it does not pass to the attention function."""
    layer_types = getattr(config, "layer_types", None)
    if layer_types:
        fits = all(windows[i] is not None for i, kind in enumerate(layer_types) if "sliding" in kind)
    else:
        fits = getattr(config, "sliding_window", None) is None or any(window is not None for window in windows.values())
    if not fits:
        raise ModelError(sentence("model.window", name=name))


def layer_shapes(context: ProbeContext) -> list[LayerShape]:
    """Return the shape of a token's keys and values in each layer, in layer order."""
    return [LayerShape(k[1], k[2], v[2]) for _, _, k, v in context.calls]


def model_facts(
    module: Any,
    name: str,
    dtype: torch.dtype,
    context: ProbeContext,
    states: StateLayers | None = None,
    latents: Latents | None = None,
) -> ModelFacts:
    """Return the facts of a probed model, which computes in `dtype`; the shape of K and V is the first layer's."""
    config = module.config.get_text_config()
    _, q, k, v = context.calls[0]
    shapes = layer_shapes(context)
    num_params, num_active = count_parameters(module, config)
    chosen, experts = experts_of(config) if num_active is not None else (0, 0)
    return ModelFacts(
        name=name,
        architecture=type(module).__name__,
        num_params=num_params,
        num_layers=len(context.calls),
        hidden_size=config.hidden_size,
        intermediate_size=_first(config, "intermediate_size", "ffn_dim", "n_inner", default=4 * config.hidden_size),
        num_heads=q[1],
        num_kv_heads=k[1],
        head_dim=k[2],
        v_head_dim=v[2],
        vocab_size=config.vocab_size,
        max_position=max_position(config),
        dtype=str(dtype).removeprefix("torch."),
        sliding_windows=[call.sliding_window for call, *_ in context.calls],
        scalings=[float(call.scaling) for call, *_ in context.calls],
        softcaps=[None if call.softcap is None else float(call.softcap) for call, *_ in context.calls],
        sinks=[None if call.sinks is None else call.sinks.flatten().float().tolist() for call, *_ in context.calls],
        tie_word_embeddings=bool(getattr(config, "tie_word_embeddings", False)),
        num_active_params=num_active,
        num_experts=experts,
        num_experts_per_tok=chosen,
        layer_kinds=_layer_kinds(config.num_hidden_layers, context.layers, states.layers) if states else [],
        state_bytes=states.num_bytes if states else 0,
        layer_shapes=[list(shape) for shape in shapes] if len(set(shapes)) > 1 else [],
        latent_dim=sum(latents.shapes[0]) if latents else 0,
        rope_dim=latents.shapes[0].rotated if latents else 0,
    )


def _layer_kinds(num_layers: int, with_keys: list[int], with_state: list[int]) -> list[LayerKeeps]:
    kinds: dict[tuple[bool, bool], LayerKeeps] = {
        (True, True): "both", (True, False): "keys", (False, True): "state", (False, False): "nothing"
    }  # fmt: skip
    return [kinds[layer in with_keys, layer in with_state] for layer in range(num_layers)]


def max_position(config: Any) -> int:
    """Return the maximum number of positions of a sequence.

    With RoPE variants that change their frequencies for long sequences ("dynamic", "longrope"), cached keys would have
    to be rotated again, and a long sequence would change the others in its batch. The original length is their limit.
    """
    limit = int(_first(config, "max_position_embeddings", "n_positions", default=UNBOUNDED_POSITIONS))
    rope = getattr(config, "rope_parameters", None) or {}
    for parameters in (rope, *(value for value in rope.values() if isinstance(value, dict))):
        if parameters.get("rope_type") in ("dynamic", "longrope"):
            original = parameters.get("original_max_position_embeddings")
            original = original or getattr(config, "original_max_position_embeddings", None)
            limit = min(limit, int(original or limit))
    return limit


def count_parameters(module: nn.Module, config: Any) -> tuple[int, int | None]:
    """Return the number of parameters, and for a mixture of experts the number that a token uses, else None."""
    total = experts = 0
    seen: set[int] = set()
    for path, part in module.named_modules():
        for parameter in part.parameters(recurse=False):
            if id(parameter) in seen:
                continue
            seen.add(id(parameter))
            count = num_weights(part, parameter)
            total += count
            experts += count if ".experts." in f"{path}." else 0
    chosen, available = experts_of(config)
    if not experts or not chosen or not available:
        return total, None
    return total, total - experts + experts * chosen // available


def experts_of(config: Any) -> tuple[int, int]:
    """Return the number of experts per token and per layer; 0 if the configuration has none."""
    chosen = _first(config, "num_experts_per_tok", "moe_top_k", "top_k_experts", default=0)
    return chosen, _first(config, "n_routed_experts", "num_local_experts", "num_experts", default=0)


def _first(config: Any, *names: str, default: int) -> int:
    """Return the first of these settings that the configuration has; for a list its first value."""
    for name in names:
        value = getattr(config, name, None)
        if value is not None:  # a list has a number for each layer
            return int(value[0] if isinstance(value, (list, tuple)) else value)
    return default
