"""Common mistakes in computing a number, each with its wrong formula, shown beside the right one."""

from __future__ import annotations

from msgspec import Struct

from engine.accounting.derived import Derived, Factor, derive
from engine.accounting.layer_bytes import CacheBytes
from engine.accounting.size import Cost

PLAIN = 2.0  # bytes per number without quantization


class Mistake(Struct, frozen=True):
    """A mistake. `kind`: kind of mistake; `right`: id of the correct number; `wrong`: the wrong number."""

    kind: str
    right: str
    wrong: Derived


def mistakes(cost: Cost, namesake: Derived | None = None) -> list[Mistake]:
    """Return the mistakes that give a different number for this model and load.

    `namesake`: bytes per token of a model with a similar name.
    """
    found = [_half(cost), _decimal(cost), _hidden_size(cost), _quarter(cost), _heads(cost), _windowless(cost)]
    found += [_active(cost), _bits(cost)]
    if namesake is not None:
        found.append(Mistake("generation", "kv_token", namesake))
    return [one for one in found if one is not None]


def _half(cost: Cost) -> Mistake:
    """Assume that the cache is half of the weights, which holds for one model at one load."""
    return Mistake("half", "kv_batch", derive("half", "B", "W / 2", cost.weights.as_factor("W")))


def _decimal(cost: Cost) -> Mistake:
    """Confuse GB with GiB."""
    return Mistake("decimal", "kv_batch", derive("decimal", "B", "C / 1024³ · 1000³", cost.batch.as_factor("C")))


def _hidden_size(cost: Cost) -> Mistake | None:
    """Use the hidden size instead of the KV heads, as if each query head had a KV head."""
    model = cost.model
    alone = model.shapes[0]
    if len(model.shapes) > 1 or alone.kind != "full" or alone.num_kv_heads * alone.head_dim == model.hidden_size:
        return None
    if not model.hidden_size:
        return None
    return Mistake(
        "hidden_size",
        "kv_token",
        derive(
            "hidden_size", "B", "2 · L · h · bytes / tp", Factor("L", alone.num_layers, "layers"),
            Factor("h", model.hidden_size, "hidden_size"), Factor("bytes", cost.stored.element, "element_bytes"),
            Factor("tp", cost.load.tensor_parallel, "tensor_parallel"),
        ),
    )  # fmt: skip


def _quarter(cost: Cost) -> Mistake | None:
    """Ignore the scales per vector of a quantized cache."""
    token, stored = cost.cache.token, cost.stored
    if token is None or not stored.scales:
        return None
    plain = CacheBytes(cost.model.shapes, PLAIN, 0, cost.load.tensor_parallel).token
    assert plain is not None
    part = Factor("q", stored.element / PLAIN, "bits_share")
    return Mistake("quarter", "kv_token", derive("quarter", "B", "k · q", plain.as_factor("k", "plain_token"), part))


def _heads(cost: Cost) -> Mistake | None:
    """Count keys and values of all heads instead of the latent vector, which each GPU stores."""
    latent = next((shape for shape in cost.model.shapes if shape.kind == "latent"), None)
    if latent is None or not cost.model.expanded_dim:
        return None
    return Mistake(
        "heads",
        "kv_token",
        derive(
            "heads", "B", "L · e · bytes / tp", Factor("L", latent.num_layers, "layers"),
            Factor("e", cost.model.expanded_dim, "expanded_dim"), Factor("bytes", cost.stored.element, "element_bytes"),
            Factor("tp", cost.load.tensor_parallel, "tensor_parallel"),
        ),
    )  # fmt: skip


def _windowless(cost: Cost) -> Mistake | None:
    """Count all tokens in all layers, ignoring windows."""
    token = cost.cache.token
    windows = [shape.window for shape in cost.model.shapes if shape.window]
    if token is None or not windows or min(windows) >= cost.load.context:
        return None
    tokens = Factor("T", cost.load.context, "context")
    return Mistake("windowless", "kv_request", derive("windowless", "B", "k · T", token.as_factor("k"), tokens))


def _active(cost: Cost) -> Mistake | None:
    """Count only the experts of one token, although all experts must be in memory."""
    active = cost.model.num_active_params
    if active is None:
        return None
    params, size = Factor("P", active, "active_params"), Factor("bytes", cost.stored.weights.each, "weight_bytes")
    tp = Factor("tp", cost.load.tensor_parallel, "tensor_parallel")
    return Mistake("active", "weights", derive("active", "B", "⌈P · bytes / tp⌉", params, size, tp))


def _bits(cost: Cost) -> Mistake | None:
    """Ignore the scales of quantized weights, for example take int4 for exactly a quarter."""
    plain = cost.stored.weights.plain
    if not plain:
        return None
    params, size = Factor("P", cost.model.num_params, "params"), Factor("bytes", plain, "plain_weight_bytes")
    tp = Factor("tp", cost.load.tensor_parallel, "tensor_parallel")
    return Mistake("bits", "weights", derive("bits", "B", "⌈P · bytes / tp⌉", params, size, tp))
