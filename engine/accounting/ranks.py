"""Query heads and KV heads of each GPU in a tensor-parallel group.

As in vLLM, a GPU has consecutive query heads and the KV heads that they read. With more GPUs than KV heads, each KV
head is replicated. A latent vector (MLA) has no heads and is replicated on every GPU.
"""

from __future__ import annotations

from msgspec import Struct

from engine.accounting.kv_shape import Architecture, KvShape, LayerKind

Heads = tuple[int, int]  # first head, number of consecutive heads


class KindRanks(Struct, frozen=True, kw_only=True):
    """Layers of a kind. `held`: KV heads by GPU; None: replicated latent vector. `copies` of each head."""

    kind: LayerKind
    num_layers: int
    num_heads: int
    copies: int
    held: list[Heads] | None


class Ranks(Struct, frozen=True, kw_only=True):
    """Division of a model. `queries`: query heads by GPU; empty: unknown. States are left out: they have no heads."""

    queries: list[Heads]
    kinds: list[KindRanks]


def ranks_of(model: Architecture, tensor_parallel: int) -> Ranks:
    """Return the heads of each GPU. They must be divisible, as `Cost` checks."""
    queries = _divided(model.num_heads, tensor_parallel) if model.num_heads else []
    return Ranks(queries=queries, kinds=[_kind(shape, tensor_parallel) for shape in model.shapes if not shape.state])


def _kind(shape: KvShape, gpus: int) -> KindRanks:
    heads = shape.num_kv_heads
    is_whole = bool(shape.latent_dim)
    return KindRanks(
        kind=shape.kind,
        num_layers=shape.num_layers,
        num_heads=heads,
        copies=gpus if is_whole else max(1, gpus // heads),
        held=None if is_whole else _divided(heads, gpus),
    )


def _divided(heads: int, gpus: int) -> list[Heads]:
    """Return consecutive heads by GPU; one each if there are more GPUs than heads."""
    if gpus >= heads:
        return [(rank * heads // gpus, 1) for rank in range(gpus)]
    own = heads // gpus
    return [(rank * own, own) for rank in range(gpus)]
