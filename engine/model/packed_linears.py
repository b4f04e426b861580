"""Linear layers whose weights are stored once, in panels of 16 columns, for any number of tokens.

    W [N, K]   ->   panels [N / 16, K, 16]        `linear_panels` in linear.c

Rows are float32, and so are all sums. The weights have one of these dtypes:

- float32;
- bfloat16, which takes half as long to read. It is the default if it is lossless, that is, for bfloat16 checkpoints;
- int8 with a scale per column (symmetric, "per channel"): the column's largest magnitude over 127. A panel's 16 scales
  are 4 lines before it;
- int4, two per uint8, with a bfloat16 scale per 32 weights of a column, 4.5 bits per weight. The levels are -8 to 7
  times the scale, and the weight of the largest magnitude is -8 (as in llama.cpp's Q4_0).

In a plain layout, a product of few rows reads each weight from another page, or once per row. In panels it reads each
weight once, in order. The input embedding, which may share the weight of the output layer, reads its rows from panels
too. Compiled code calls the C function directly, by the name of the operation's C shim, bypassing Python and torch's
dispatcher.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from engine.model.native import SCALES, SHARED, SHARED_LINES, linear_kernel, width_of

PANEL = 16  # columns; LANES in kernels/vectors.h
FLOATS = (torch.float32, torch.bfloat16, torch.float16)  # dtypes of plain weights
PART = 1 << 18  # number of weights that are packed or unpacked at a time, which bounds the size of float32 copies

torch.library.define("kvtheater::linear", "(Tensor x, Tensor panels) -> Tensor")
torch.library.define("kvtheater::rows", "(Tensor panels, Tensor ids) -> Tensor")
PACKED = torch.ops.kvtheater.linear.default
ROWS = torch.ops.kvtheater.rows.default
SHIMS: dict[Any, list[str]] = {  # their C functions, in kernels/linear.c
    op: [f"AOTITorchError aoti_torch_cpu_{op._opname}({', '.join(f'AtenTensorHandle{name}' for name in names)})"]
    for op, names in ((PACKED, (" x", " panels", "* out")), (ROWS, (" panels", " ids", "* out")))
}


@torch.library.impl("kvtheater::linear", "CPU")
def _linear(x: Tensor, panels: Tensor) -> Tensor:
    """Multiply x [..., K] by the weights in `panels` -> [..., N]."""
    kernel = linear_kernel()
    return _plain_product(x, panels) if kernel is None else kernel.multiply(x, panels)


def _plain_product(x: Tensor, panels: Tensor) -> Tensor:
    """Multiply x [..., K] by the weight, which is unpacked part by part -> [..., N]."""
    parts = torch.split(panels, max(1, PART // (panels.shape[1] * PANEL)))
    return torch.cat([x @ unpacked(part).t() for part in parts], dim=-1)


@torch.library.register_fake("kvtheater::linear")  # type: ignore[untyped-decorator]
def _linear_shape(x: Tensor, panels: Tensor) -> Tensor:
    return x.new_empty((*x.shape[:-1], panels.shape[0] * PANEL))


def _rows(panels: Tensor, ids: Tensor) -> Tensor:
    """Look up ids [...] -> [..., K] float32. Each id is a column of a panel, which spans K cache lines."""
    panel, column = ids // PANEL, ids % PANEL
    found = panels.transpose(1, 2)[panel, column].float()
    if panels.dtype != torch.int8:
        return found
    scales = panels[:, :SCALES][panel].contiguous().view(torch.float32).flatten(-2)  # [..., 16]
    return found[..., SCALES:] * scales.gather(-1, column[..., None])


torch.library.impl("kvtheater::rows", "CPU", _rows)


@torch.library.register_fake("kvtheater::rows")  # type: ignore[untyped-decorator]
def _rows_shape(panels: Tensor, ids: Tensor) -> Tensor:
    return panels.new_empty((*ids.shape, width_of(panels.shape[1], panels.dtype)), dtype=torch.float32)


def packed(weight: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return a copy of a weight [N, K] as panels, rounded to `dtype`; N is a multiple of 16."""
    rows = max(PANEL, PART // weight.shape[1] // PANEL * PANEL)
    parts = [_packed(part.float(), dtype) for part in torch.split(weight, rows)]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _packed(weight: Tensor, dtype: torch.dtype) -> Tensor:
    if dtype == torch.int8:
        scale = weight.abs().amax(dim=1) / 127
        rounded = (weight / torch.where(scale > 0, scale, 1)[:, None]).round().to(torch.int8)
        lines = scale.view(-1, PANEL).view(torch.int8).view(-1, SCALES, PANEL)
        return torch.cat([lines, packed_as_is(rounded)], dim=1)
    return _int4(weight) if dtype == torch.uint8 else packed_as_is(weight.to(dtype))


def _int4(weight: Tensor) -> Tensor:
    """Return panels [N / 16, K / 32 * 18, 16] of uint8; K is a multiple of 32."""
    shared = weight.reshape(weight.shape[0] // PANEL, PANEL, -1, SHARED)
    scale = (shared.gather(-1, shared.abs().argmax(-1, keepdim=True)) / -8).bfloat16()
    levels = (shared / torch.where(scale == 0, 1, scale)).round().clamp(-8, 7).add(8).to(torch.uint8)
    pairs = levels[..., : SHARED // 2] | levels[..., SHARED // 2 :] << 4
    lines = scale.transpose(1, 2).contiguous().view(torch.uint8).view(*scale.shape[0:3:2], 2, PANEL)
    return torch.cat([lines, pairs.permute(0, 2, 3, 1)], dim=2).flatten(1, 2)


def _of_int4(panels: Tensor) -> Tensor:
    shared = panels.view(panels.shape[0], -1, SHARED_LINES, PANEL)
    scale = shared[:, :, :2].contiguous().view(torch.bfloat16).view(*shared.shape[:2], 1, PANEL).float()
    pairs = shared[:, :, 2:]
    levels = torch.cat([pairs & 15, pairs >> 4], dim=2).float() - 8
    return (levels * scale).flatten(1, 2).transpose(1, 2).flatten(0, 1)


def packed_as_is(weight: Tensor) -> Tensor:
    """Rearrange a weight without rounding: [N, K] -> [N / 16, K, 16]."""
    return weight.reshape(-1, PANEL, weight.shape[1]).transpose(1, 2).contiguous()


def unpacked(panels: Tensor) -> Tensor:
    """Return a float32 copy of the weight [N, K]."""
    if panels.dtype == torch.int8:
        scale = panels[:, :SCALES].contiguous().view(-1, SCALES * PANEL).view(torch.float32).flatten()
        return panels[:, SCALES:].transpose(1, 2).flatten(0, 1).float() * scale[:, None]
    if panels.dtype == torch.uint8:
        return _of_int4(panels)
    return panels.transpose(1, 2).flatten(0, 1).float()


class _Packed(nn.Module):
    """Module that stores a weight in panels and returns it in plain layout."""

    panels: nn.Parameter

    @property
    def weight(self) -> Tensor:
        """Copy of the plain weight [N, K]; writing to it has no effect."""
        return unpacked(self.panels.detach())

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Save the plain weight, like the replaced module."""
        destination[f"{prefix}weight"] = self.weight
        super()._save_to_state_dict(destination, prefix, keep_vars)
        del destination[f"{prefix}panels"]


class PackedLinear(_Packed):
    """`nn.Linear` for float32 rows on the CPU."""

    is_plain = False  # see `plain_products`

    def __init__(self, panels: nn.Parameter, bias: nn.Parameter | None) -> None:
        super().__init__()
        self.panels = panels
        self.bias = bias
        self.in_features = width_of(panels.shape[1], panels.dtype)
        self.out_features = panels.shape[0] * PANEL

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer: x [..., K] -> [..., N]."""
        if self.is_plain:
            y = _plain_product(x, self.panels)
        elif torch.compiler.is_exporting() or (kernel := linear_kernel()) is None:
            y = PACKED(x.contiguous(), self.panels)
        else:  # bypasses torch's dispatcher, which takes longer than a small product
            y = kernel.multiply(x, self.panels)
        return y if self.bias is None else y + self.bias


class PackedEmbedding(_Packed):
    """`nn.Embedding` over panels that are not int4; it may share them with a `PackedLinear`."""

    def __init__(self, panels: nn.Parameter) -> None:
        super().__init__()
        self.panels = panels
        self.num_embeddings = panels.shape[0] * PANEL
        self.embedding_dim = width_of(panels.shape[1], panels.dtype)

    def forward(self, ids: Tensor) -> Tensor:
        """Look up ids [...] -> [..., K]."""
        if torch.compiler.is_exporting():
            found: Tensor = ROWS(self.panels, ids.contiguous())
            return found
        return _rows(self.panels, ids)


@contextmanager
def plain_products(module: nn.Module) -> Iterator[None]:
    """Inside the `with`, a module's packed layers multiply by plain weights with torch, as the original model does."""
    parts = [part for part in module.modules() if isinstance(part, PackedLinear)]
    try:
        for part in parts:
            part.is_plain = True
        yield
    finally:
        for part in parts:
            part.is_plain = False


def pack_linears(
    module: nn.Module, weights: torch.dtype | None = None, dtypes: tuple[torch.dtype, ...] = FLOATS[:1]
) -> int:
    """Replace in place every `nn.Linear` of a module that can be packed, embeddings that share a packed weight, and
    the input embedding; return the number of linear layers. The plain weights are freed one by one.

    `weights`: the dtype to round to; None = bfloat16 if all weights are exact in it, else float32. The output layer and
    embeddings are rounded to bfloat16 instead of int8, and to int8 instead of int4. Weights whose row length is not a
    multiple of 32 are rounded to int8 instead of int4.
    `dtypes`: dtypes of the weights that are packed. Other weights of these dtypes are converted to float32.
    """
    places = _places(module, dtypes)
    if places or dtypes != FLOATS[:1]:
        _copy_others(module, places, dtypes)
    if weights is None:
        plain = [sharing[0][2].weight for sharing in places.values()]
        weights = torch.bfloat16 if all(map(_is_bfloat16, plain)) else torch.float32
    head = _head(module)
    count = 0
    while places:
        _, sharing = places.popitem()
        weight = sharing[0][2].weight.detach()
        panels = nn.Parameter(packed(weight, _dtype_of(sharing, head, weights)), requires_grad=False)
        new: dict[int, nn.Module] = {}  # by the id of the replaced module, which may occur several times
        for owner, name, part in sharing:
            if id(part) not in new:
                if isinstance(part, nn.Linear):
                    new[id(part)] = PackedLinear(panels, part.bias)
                    count += 1
                else:
                    new[id(part)] = PackedEmbedding(panels)
            setattr(owner, name, new[id(part)].train(part.training))
        del sharing, owner, part, weight
    return count


def _copy_others(module: nn.Module, places: dict[int, _Sharing], dtypes: tuple[torch.dtype, ...]) -> None:
    """Copy the tensors that will not be packed, because a single view of a mapped checkpoint keeps the whole file in
    memory. A copy of a weight that is packed for another module becomes a buffer, so that parameters are counted once.
    """
    for buffer in module.buffers():
        buffer.data = buffer.data.clone()
    replaced = {id(part) for sharing in places.values() for _, _, part in sharing}
    for part in module.modules():
        for name, parameter in () if isinstance(part, _Packed) else list(part.named_parameters(recurse=False)):
            dtype = torch.float32 if parameter.dtype in dtypes else parameter.dtype
            if id(parameter) not in places:
                parameter.data = parameter.data.to(dtype, copy=True)
            elif id(part) not in replaced:
                delattr(part, name)
                part.register_buffer(name, parameter.detach().to(dtype, copy=True))


def packed_bytes(module: nn.Module, weights: torch.dtype) -> int:
    """Return by how many bytes, relative to float32, a module's parameters grow when its linear layers are packed:
    smaller dtypes shrink them, and copies for embeddings that cannot share panels add to them. Only shapes are read.
    """
    linear = {id(part.weight) for part in module.modules() if type(part) is nn.Linear}
    tied = [part for part in module.modules() if isinstance(part, nn.Embedding) and id(part.weight) in linear]
    more = sum(4 * part.weight.numel() for part in tied if not shares_panels(part))
    head = _head(module)
    for sharing in _places(module, FLOATS).values():
        weight, dtype = sharing[0][2].weight, _dtype_of(sharing, head, weights)
        size = weight.numel() * dtype.itemsize
        if dtype == torch.uint8:
            size = size * SHARED_LINES // SHARED
        more += size - 4 * weight.numel() + (4 * weight.shape[0] if dtype == torch.int8 else 0)
    return more


def num_weights(part: nn.Module, parameter: nn.Parameter) -> int:
    """Return the number of weights that a module's parameter stores."""
    if not isinstance(part, _Packed) or parameter is not part.panels:
        return parameter.numel()
    return parameter.shape[0] * PANEL * width_of(parameter.shape[1], parameter.dtype)


def bytes_per_weight(module: nn.Module, dtype: torch.dtype) -> float | None:
    """Return the mean size of the weights that a step reads in full (all but embeddings); None if all have `dtype`."""
    seen: dict[int, tuple[int, int]] = {}  # by parameter: bytes, number of weights
    for part in module.modules():
        if not isinstance(part, (nn.Embedding, PackedEmbedding)):
            for parameter in part.parameters(recurse=False):
                seen[id(parameter)] = parameter.nbytes, num_weights(part, parameter)
    if all(size == count * dtype.itemsize for size, count in seen.values()):
        return None
    return sum(size for size, _ in seen.values()) / sum(count for _, count in seen.values())


_Sharing = list[tuple[nn.Module, str, nn.Linear | nn.Embedding]]  # uses of a weight: owner, name, module


def _places(module: nn.Module, dtypes: tuple[torch.dtype, ...]) -> dict[int, _Sharing]:
    """Return the uses of packable weights, by the weight's id; empty if the kernel is missing."""
    places: dict[int, _Sharing] = {}
    if linear_kernel() is None:
        return places
    inputs = getattr(module, "get_input_embeddings", lambda: None)()
    children = [(owner, *named) for owner in list(module.modules()) for named in owner.named_children()]
    for owner, name, part in children:
        # Subclasses (quantized layers, adapters) may give `weight` another meaning.
        if type(part) is nn.Linear and _is_packable(part.weight, dtypes):
            places.setdefault(id(part.weight), []).append((owner, name, part))
    for owner, name, part in children:
        if not isinstance(part, nn.Embedding) or not shares_panels(part):
            continue
        if id(part.weight) in places or (part is inputs and _is_packable(part.weight, dtypes)):
            places.setdefault(id(part.weight), []).append((owner, name, part))
    return places


def _head(module: nn.Module) -> nn.Module | None:
    """Return the output layer, which computes logits, or None."""
    found: nn.Module | None = getattr(module, "get_output_embeddings", lambda: None)()
    return found


def _dtype_of(sharing: _Sharing, head: nn.Module | None, weights: torch.dtype) -> torch.dtype:
    """Return the dtype in which a weight is stored."""
    is_outer = any(part is head or isinstance(part, nn.Embedding) for _, _, part in sharing)
    return _stored(sharing[0][2].weight, is_outer, weights)


def _stored(weight: Tensor, is_outer: bool, weights: torch.dtype) -> torch.dtype:
    """Return the dtype of a weight's panels; `is_outer`: whether it belongs to the output layer or an embedding."""
    if is_outer and weights == torch.int8:
        return torch.bfloat16
    return torch.int8 if weights == torch.uint8 and (is_outer or weight.shape[1] % SHARED) else weights


def shares_panels(embedding: nn.Embedding) -> bool:
    """Return whether an embedding on the CPU can read its rows from panels. A class that does more than a lookup (for
    example scaling) cannot; if it shares a weight with a linear layer, each of the two gets a copy.
    """
    plain = type(embedding) is nn.Embedding and embedding.max_norm is None
    return plain and embedding.num_embeddings % PANEL == 0 and linear_kernel() is not None


def _is_bfloat16(weight: Tensor) -> bool:
    """Return whether all numbers of a tensor are exact in bfloat16: the last 16 bits of their float32 form are 0."""
    if weight.dtype == torch.bfloat16:
        return True
    parts = torch.split(weight.detach(), max(1, PART // weight.shape[1]))
    return not any(bool((part.float().contiguous().view(torch.int32) & 0xFFFF).any()) for part in parts)


def _is_packable(weight: Tensor, dtypes: tuple[torch.dtype, ...]) -> bool:
    is_plain = not hasattr(weight, "__tensor_flatten__")  # a subclass stores its numbers elsewhere
    is_supported_device = weight.device.type in ("cpu", "meta")
    return is_plain and is_supported_device and weight.dtype in dtypes and weight.shape[0] % PANEL == 0
