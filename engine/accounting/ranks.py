"""Query heads and KV heads of each GPU in a tensor-parallel group.

As in vLLM, a GPU has consecutive query heads and the KV heads that they attend to. If there are more GPUs than KV
heads, KV heads are replicated. A latent vector (MLA) has no heads and is replicated on every GPU.
"""

from __future__ import annotations

from msgspec import Struct

from engine.accounting.kv_shape import Architecture, KvShape, LayerKind

Heads = tuple[int, int]  # first head, number of consecutive heads


class KindRanks(Struct, frozen=True, kw_only=True):
    """Layers of one kind. `held`: KV heads of each GPU, None for a replicated latent vector; `copies`: of each head."""

    kind: LayerKind
    num_layers: int
    num_heads: int
    copies: int
    held: list[Heads] | None


class Ranks(Struct, frozen=True, kw_only=True):
    """Division of a model's heads. `queries`: query heads of each GPU, empty if unknown. States have no heads."""

    queries: list[Heads]
    kinds: list[KindRanks]


def ranks_of(model: Architecture, tensor_parallel: int) -> Ranks:
    """Return the heads of each GPU. The caller checks that they are divisible (`Cost`)."""
    queries = _divided(model.num_heads, tensor_parallel) if model.num_heads else []
    return Ranks(queries=queries, kinds=[_kind(shape, tensor_parallel) for shape in model.shapes if not shape.state])


def _kind(shape: KvShape, gpus: int) -> KindRanks:
    heads = shape.num_kv_heads
    is_replicated = bool(shape.latent_dim)
    return KindRanks(
        kind=shape.kind,
        num_layers=shape.num_layers,
        num_heads=heads,
        copies=gpus if is_replicated else max(1, gpus // heads),
        held=None if is_replicated else _divided(heads, gpus),
    )


def _divided(heads: int, gpus: int) -> list[Heads]:
    """Return the consecutive heads of each GPU; one head each if there are more GPUs than heads."""
    if gpus >= heads:
        return [(rank * heads // gpus, 1) for rank in range(gpus)]
    own = heads // gpus
    return [(rank * own, own) for rank in range(gpus)]
