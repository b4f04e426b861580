"""Memory layout of a layer's keys or values: unquantized, or in fewer bits with a scale for each token and head.

A plane holds one kind of vector (keys or values) of one layer, [num_blocks, block_size, Hkv, W]:

    plain     the numbers themselves in a floating-point dtype                               W * size    bytes a vector
    fp8_e4m3  four exponent and three mantissa bits; values beyond 448 become 448            W           bytes
    int8      round(x / s), s = max |x| / 127                                                W + 2       bytes
    int4      round((x - z) / s), z = min x, s = (max x - min x) / 15; two numbers a byte    W / 2 + 4   bytes

Scales `s` and zero points `z` are float16, one per token and head. Reads return the compute dtype.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import torch
from torch import Tensor

QUANTIZED = ("fp8", "fp8_e4m3", "int8", "int4")
Shape = tuple[int, int, int, int]  # num_blocks, block_size, Hkv, W


class NewPool(Protocol):
    """Allocator of a pool's tensors: contiguous zeros in memory that nothing else uses."""

    def __call__(self, shape: tuple[int, ...], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Return the tensor. Raises RuntimeError or MemoryError if there is no memory for it."""


def zeros(shape: tuple[int, ...], *, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return zeros in private memory of this process."""
    return torch.zeros(shape, dtype=dtype, device=device)


class KVPlane(ABC):
    """Vectors of one kind in one layer, addressed by slots. `pools`: its tensors, with blocks as first dimension."""

    def __init__(self, compute_dtype: torch.dtype, new_pool: NewPool) -> None:
        self.compute_dtype = compute_dtype
        self.pools: list[Tensor] = []
        self._new_pool = new_pool

    def _pool(self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        # Zeros rather than uninitialised memory: padded gathers read slots that were never written, and a masked
        # weight of 0 times a NaN would still be a NaN.
        pool = self._new_pool(shape, dtype=dtype, device=device)
        self.pools.append(pool)
        return pool

    @property
    def bytes_per_slot(self) -> int:
        """Bytes of one token in all heads."""
        return sum(pool[0, 0].numel() * pool.dtype.itemsize for pool in self.pools)

    @abstractmethod
    def write(self, slots: Tensor, x: Tensor) -> None:
        """Write x [T, Hkv, W] to `slots` [T], which must be distinct."""

    @abstractmethod
    def read(self, slots: Tensor) -> Tensor:
        """Return copies [N, Hkv, W] of `slots` [N], in this order."""

    @abstractmethod
    def read_heads(self, rows: Tensor) -> Tensor:
        """Return copies [N, W] of `rows` [N], where row = slot * Hkv + head."""

    @abstractmethod
    def view(self, first_slot: int, num_slots: int) -> Tensor:
        """Return adjacent slots as [num_slots, Hkv, W], without a copy if they are stored unconverted."""


class PlainPlane(KVPlane):
    """Unquantized vectors, in the compute dtype or rounded to another floating-point dtype."""

    def __init__(
        self,
        shape: Shape,
        dtype: torch.dtype,
        compute: torch.dtype,
        device: torch.device,
        new_pool: NewPool = zeros,
    ) -> None:
        super().__init__(compute, new_pool)
        pool = self._pool(shape, dtype, device)
        self.dtype = dtype
        # Views: [num_slots, Hkv, W] to write tokens, [num_slots * Hkv, W] to gather single heads.
        self._slots, self._rows = pool.flatten(0, 1), pool.flatten(0, 2)

    def write(self, slots: Tensor, x: Tensor) -> None:
        self._slots.index_copy_(0, slots, x if x.dtype == self.dtype else x.to(self.dtype))

    def read(self, slots: Tensor) -> Tensor:
        return self._to_compute_dtype(self._slots.index_select(0, slots))

    def read_heads(self, rows: Tensor) -> Tensor:
        return self._to_compute_dtype(self._rows.index_select(0, rows))

    def view(self, first_slot: int, num_slots: int) -> Tensor:
        return self._to_compute_dtype(self._slots.narrow(0, first_slot, num_slots))

    def _to_compute_dtype(self, x: Tensor) -> Tensor:
        return x if self.dtype == self.compute_dtype else x.to(self.compute_dtype)


class Fp8Plane(KVPlane):
    """float8_e4m3fn, stored as uint8, which every device can index."""

    LARGEST = 448.0

    def __init__(self, shape: Shape, compute: torch.dtype, device: torch.device, new_pool: NewPool = zeros) -> None:
        super().__init__(compute, new_pool)
        pool = self._pool(shape, torch.uint8, device)
        self._slots, self._rows = pool.flatten(0, 1), pool.flatten(0, 2)

    def write(self, slots: Tensor, x: Tensor) -> None:
        bits = x.clamp(-self.LARGEST, self.LARGEST).to(torch.float8_e4m3fn).view(torch.uint8)
        self._slots.index_copy_(0, slots, bits)

    def read(self, slots: Tensor) -> Tensor:
        return self._dequantize(self._slots.index_select(0, slots))

    def read_heads(self, rows: Tensor) -> Tensor:
        return self._dequantize(self._rows.index_select(0, rows))

    def view(self, first_slot: int, num_slots: int) -> Tensor:
        return self._dequantize(self._slots.narrow(0, first_slot, num_slots))

    def _dequantize(self, bits: Tensor) -> Tensor:
        return bits.view(torch.float8_e4m3fn).to(self.compute_dtype)


class Int8Plane(KVPlane):
    """Symmetric quantization: zero is exact."""

    def __init__(self, shape: Shape, compute: torch.dtype, device: torch.device, new_pool: NewPool = zeros) -> None:
        super().__init__(compute, new_pool)
        levels, scales = self._pool(shape, torch.int8, device), self._pool(shape[:3], torch.float16, device)
        self._slots, self._rows = levels.flatten(0, 1), levels.flatten(0, 2)
        self._slot_scales, self._row_scales = scales.flatten(0, 1), scales.flatten()

    def write(self, slots: Tensor, x: Tensor) -> None:
        scales = _half(x.abs().amax(-1) / 127)  # [T, Hkv]
        levels = (x.float() / scales.float()[..., None]).round_().clamp_(-127, 127)
        self._slots.index_copy_(0, slots, levels.to(torch.int8))
        self._slot_scales.index_copy_(0, slots, scales)

    def read(self, slots: Tensor) -> Tensor:
        return self._dequantize(self._slots.index_select(0, slots), self._slot_scales.index_select(0, slots))

    def read_heads(self, rows: Tensor) -> Tensor:
        return self._dequantize(self._rows.index_select(0, rows), self._row_scales.index_select(0, rows))

    def view(self, first_slot: int, num_slots: int) -> Tensor:
        return self._dequantize(
            self._slots.narrow(0, first_slot, num_slots), self._slot_scales.narrow(0, first_slot, num_slots)
        )

    def _dequantize(self, levels: Tensor, scales: Tensor) -> Tensor:
        return (levels.float() * scales.float()[..., None]).to(self.compute_dtype)


class Int4Plane(KVPlane):
    """Asymmetric quantization: all 16 levels cover the range of the vector, whatever its signs."""

    def __init__(self, shape: Shape, compute: torch.dtype, device: torch.device, new_pool: NewPool = zeros) -> None:
        if shape[3] % 2:
            raise ValueError(f"int4 packs two numbers a byte and needs vectors of even length, not {shape[3]}")
        super().__init__(compute, new_pool)
        levels = self._pool((*shape[:3], shape[3] // 2), torch.uint8, device)
        ranges = self._pool((*shape[:3], 2), torch.float16, device)  # scale, zero point
        self._slots, self._rows = levels.flatten(0, 1), levels.flatten(0, 2)
        self._slot_ranges, self._row_ranges = ranges.flatten(0, 1), ranges.flatten(0, 2)

    def write(self, slots: Tensor, x: Tensor) -> None:
        low, high = x.float().aminmax(dim=-1)  # [T, Hkv]
        zeros = low.to(torch.float16)
        scales = _half((high - zeros.float()) / 15)
        levels = ((x.float() - zeros.float()[..., None]) / scales.float()[..., None]).round_().clamp_(0, 15)
        levels = levels.to(torch.uint8)
        self._slots.index_copy_(0, slots, levels[..., 0::2] | levels[..., 1::2] << 4)
        self._slot_ranges.index_copy_(0, slots, torch.stack([scales, zeros], dim=-1))

    def read(self, slots: Tensor) -> Tensor:
        return self._dequantize(self._slots.index_select(0, slots), self._slot_ranges.index_select(0, slots))

    def read_heads(self, rows: Tensor) -> Tensor:
        return self._dequantize(self._rows.index_select(0, rows), self._row_ranges.index_select(0, rows))

    def view(self, first_slot: int, num_slots: int) -> Tensor:
        return self._dequantize(
            self._slots.narrow(0, first_slot, num_slots), self._slot_ranges.narrow(0, first_slot, num_slots)
        )

    def _dequantize(self, packed: Tensor, ranges: Tensor) -> Tensor:
        levels = torch.stack([packed & 15, packed >> 4], dim=-1).flatten(-2).float()  # [..., W]
        ranges = ranges.float()
        return (levels * ranges[..., :1] + ranges[..., 1:]).to(self.compute_dtype)


def _half(scales: Tensor) -> Tensor:
    """Return scales as float16. A scale of 0, as of a vector of equal numbers, becomes the smallest normal number."""
    tiny = torch.finfo(torch.float16).tiny
    return scales.float().clamp_(min=tiny).to(torch.float16)


def make_plane(
    kind: str | torch.dtype,
    shape: Shape,
    compute_dtype: torch.dtype,
    device: torch.device,
    new_pool: NewPool = zeros,
) -> KVPlane:
    """Return a plane. `kind`: one of `QUANTIZED`, or a floating-point dtype."""
    if isinstance(kind, torch.dtype):
        return PlainPlane(shape, kind, compute_dtype, device, new_pool)
    if kind in ("fp8", "fp8_e4m3"):
        return Fp8Plane(shape, compute_dtype, device, new_pool)
    return {"int8": Int8Plane, "int4": Int4Plane}[kind](shape, compute_dtype, device, new_pool)
