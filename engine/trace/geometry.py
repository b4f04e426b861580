"""Validation of a header: pool sizes are within limits, and per-layer lists have an entry for each layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from engine.trace.limits import (
    MAX_ALL_BLOCKS,
    MAX_BLOCK_SIZE,
    MAX_BLOCKS,
    MAX_DIMENSIONS,
    MAX_GROUPS,
    MAX_HEADS,
    MAX_LAYERS,
)
from engine.trace.records import BlockGroup, Header


class TraceStateError(ValueError):
    """A record contradicts the state before it. `operation`: index of the wrong operation, or None."""

    def __init__(self, message: str, operation: int | None = None) -> None:
        super().__init__(message)
        self.operation = operation


class Geometry(NamedTuple):
    """Pools of a run."""

    block_size: int  # tokens
    groups: list[BlockGroup]
    swap_space: int  # blocks of the CPU store, for each group
    finished_kept: int | None  # finished sequences that the state retains; None = all

    @property
    def num_blocks(self) -> int:
        """Number of blocks of all pools."""
        return sum(group.num_blocks for group in self.groups)


def geometry(header: Header) -> Geometry:
    """Return the pools described by the header.

    Raises:
        TraceStateError: the pools are missing or exceed the limits, or the model's figures are invalid.
    """
    for message in _wrong_in_model(header):
        raise TraceStateError(f"the header's {message}")
    block_size = _setting(header, "block_size", 1, MAX_BLOCK_SIZE)
    groups = _groups(header)
    swap_space = _setting(header, "swap_space", 0, MAX_BLOCKS // len(groups)) if header.engine.get("swap_space") else 0
    if header.finished_kept is not None and header.finished_kept < 0:
        raise TraceStateError(f"the header's finished_kept is {header.finished_kept}")
    return Geometry(block_size, groups, swap_space, header.finished_kept)


def _wrong_in_model(header: Header) -> Iterator[str]:
    """Yield each number over its limit, and each list without an entry for every layer or head."""
    model = header.model
    limits = {
        "num_layers": MAX_LAYERS, "num_heads": MAX_HEADS, "num_kv_heads": MAX_HEADS, "head_dim": MAX_DIMENSIONS,
        "v_head_dim": MAX_DIMENSIONS,
    }  # fmt: skip
    for name, most in limits.items():
        value = getattr(model, name)
        if not 1 <= value <= most:
            yield f"model.{name} must be from 1 to {most}, not {value}"
    if not 0 <= model.rope_dim <= model.latent_dim <= MAX_DIMENSIONS:
        yield f"model.rope_dim {model.rope_dim} and latent_dim {model.latent_dim} must rise from 0 to {MAX_DIMENSIONS}"
    if model.num_heads % model.num_kv_heads:
        yield f"model.num_heads {model.num_heads} is not a multiple of model.num_kv_heads {model.num_kv_heads}"
    for shape in model.layer_shapes:
        if len(shape) != 3 or not all(1 <= size <= MAX_DIMENSIONS for size in shape) or model.num_heads % shape[0]:
            yield f"model.layer_shapes has {shape}; expected [KV heads, key dimension, value dimension]"
    for name in ("sliding_windows", "scalings", "softcaps", "sinks", "layer_shapes"):
        values: Sequence[object] = getattr(model, name)
        if len(values) != model.num_layers and (values or name == "sliding_windows"):
            yield f"model.{name} has {len(values)} entries for {model.num_layers} layers"
    for layer, sinks in enumerate(model.sinks):
        if sinks is not None and len(sinks) != model.num_heads:
            yield f"model.sinks of layer {layer} has {len(sinks)} entries for {model.num_heads} query heads"
    for known in model.heads:
        if not (0 <= known.layer < model.num_layers and 0 <= known.head < model.num_heads):
            yield f"model.heads names head {known.head} of layer {known.layer}, which the model does not have"
    if header.kv_bytes_per_token < 1:
        yield f"kv_bytes_per_token is {header.kv_bytes_per_token}"


def _groups(header: Header) -> list[BlockGroup]:
    """Return the header's groups of layers. If it has none, all layers form one group."""
    num_blocks = _setting(header, "num_blocks", 1, MAX_ALL_BLOCKS if header.block_groups else MAX_BLOCKS)
    groups, num_layers = header.block_groups, header.model.num_layers
    if not groups:
        layers = list(range(num_layers))
        bytes_each = header.kv_bytes_per_token
        if len(header.instances) > 1:
            raise TraceStateError("the header has several instances, but no block_groups")
        return [BlockGroup(layers=layers, first_block=0, num_blocks=num_blocks, kv_bytes_per_token=bytes_each)]
    if len(groups) > MAX_GROUPS:
        raise TraceStateError(f"the header has {len(groups)} block groups, at most {MAX_GROUPS} are allowed")
    first = 0
    for group in groups:
        if group.first_block != first or not 1 <= group.num_blocks <= min(MAX_BLOCKS, MAX_ALL_BLOCKS - first):
            raise TraceStateError(f"the header's block groups do not follow each other at block {first}")
        first += group.num_blocks
    owners = [group.instance for group in groups]
    if owners != sorted(owners) or set(owners) != set(range(max(len(header.instances), 1))):
        raise TraceStateError("the header's block_groups are not those of each of its instances, one after the other")
    for owner in sorted(set(owners)):
        layers = sorted(layer for group in groups if group.instance == owner for layer in group.layers)
        if layers != list(range(num_layers)):
            raise TraceStateError(
                f"the header's block_groups have the layers {str(layers)[:200]}, not each of the model's {num_layers} "
                "once"
            )
    return groups


def _setting(header: Header, name: str, least: int, most: int) -> int:
    value = header.engine.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise TraceStateError(
            f"the header's engine.{name} must be a whole number from {least} to {most}, not {repr(value)[:80]}"
        )
    return value


def group_index(groups: list[BlockGroup], block_id: int) -> int:
    """Return the index of the block's group of layers. Raises TraceStateError if no pool has the block."""
    for index, group in enumerate(groups):
        if block_id < group.first_block + group.num_blocks:
            return index
    raise TraceStateError(f"there is no block {block_id} in the pool")
