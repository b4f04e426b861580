"""Figures of costs: bytes and operations of the run, and formulas of given numbers."""

from __future__ import annotations

from app.lessons.figures import FigureValue, figure
from app.lessons.scene import Scene, Undecided
from engine.accounting.kv_shape import KvShape
from engine.accounting.layer_bytes import kv_token
from engine.trace.records import Work


def _work(scene: Scene) -> tuple[Work, int]:
    for index in range(scene.now - 1, -1, -1):
        work = scene.log.record(index).work
        if work is not None:
            return work, index
    raise Undecided("no step has been taken yet")


@figure
def intensity(scene: Scene) -> FigureValue:
    """Return the operations per byte of the last step (Williams et al., "Roofline", 2009)."""
    work, index = _work(scene)
    return FigureValue(work.flops / (work.weight_bytes + work.kv_read_bytes + work.kv_write_bytes), index)


@figure
def ridge(scene: Scene) -> FigureValue:
    """Return this machine's measured operations per byte."""
    roofs = scene.header.machine.roofs
    if roofs is None:
        raise Undecided("the peak rates of this machine were not measured when the run began")
    return FigureValue(roofs.flops_per_second / roofs.bytes_per_second)


@figure
def stored_token_bytes(scene: Scene) -> FigureValue:
    """Return the bytes of a slot of this run's cache in all layers, including scales."""
    memory = scene.log.record(scene.now - 1).memory
    if not memory.blocks_held:
        raise Undecided("no block is held")
    return FigureValue(memory.bytes_held / memory.blocks_held / memory.block_size, scene.now - 1)


@figure
def share_of_fp16(scene: Scene) -> FigureValue:
    """Return `stored_token_bytes` as a share of the bytes at two bytes per number."""
    model = scene.header.model
    fp16_bytes = model.num_layers * model.num_kv_heads * (model.head_dim + model.v_head_dim) * 2
    found = stored_token_bytes(scene)
    return FigureValue(found.value / fp16_bytes, found.record)


@figure
def kv(scene: Scene, layers: int, kv_heads: int, head_dim: int, element_bytes: int, tokens: int) -> FigureValue:
    """Return 2 · layers · KV heads · D · bytes per number · tokens."""
    shape = KvShape(layers, kv_heads, head_dim, head_dim)
    return FigureValue(kv_token(shape, element_bytes).value * tokens)


@figure
def weights(scene: Scene, millions: int, element_bytes: int) -> FigureValue:
    """Return the bytes of a model's parameters, given in millions."""
    return FigureValue(millions * 1_000_000 * element_bytes)


@figure
def kv_share(
    scene: Scene, layers: int, kv_heads: int, head_dim: int, element_bytes: int, tokens: int, millions: int
) -> FigureValue:
    """Return the bytes of cache / bytes of weights."""
    cache = kv(scene, layers, kv_heads, head_dim, element_bytes, tokens).value
    return FigureValue(cache / weights(scene, millions, element_bytes).value)
