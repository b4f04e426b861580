"""Heads that each GPU of a tensor-parallel group computes, and the KV heads whose keys and values it keeps.

As vLLM divides them: neighbouring query heads, and the KV heads that these read. With more GPUs than KV heads, each KV
head lies on several GPUs. A latent vector (MLA) has no heads and lies on every GPU.
"""

from __future__ import annotations

from msgspec import Struct

from engine.accounting.kv_shape import Architecture, KvShape, LayerKind

Heads = tuple[int, int]  # the first of neighbouring heads, and how many


class KindRanks(Struct, frozen=True, kw_only=True):
    """Layers of a kind. `held`: KV heads by GPU; None: each GPU keeps the whole vector. `copies` of each head."""

    kind: LayerKind
    num_layers: int
    num_heads: int
    copies: int
    held: list[Heads] | None


class Ranks(Struct, frozen=True, kw_only=True):
    """Division of a model. `queries`: query heads by GPU; empty: not known. States are left out: no head names them."""

    queries: list[Heads]
    kinds: list[KindRanks]


def ranks_of(model: Architecture, tensor_parallel: int) -> Ranks:
    """Return what each GPU computes and keeps. The heads must be divisible, as `Cost` has checked."""
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
    """Neighbouring heads by GPU; one on each where there are more GPUs than heads."""
    if gpus >= heads:
        return [(rank * heads // gpus, 1) for rank in range(gpus)]
    own = heads // gpus
    return [(rank * own, own) for rank in range(gpus)]
