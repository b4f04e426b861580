"""Models of other sizes: what each keeps of a token, with the source and the date of its figures (`models.toml`)."""

from __future__ import annotations

import functools
from datetime import date
from pathlib import Path

import msgspec
from msgspec import Struct

from engine.accounting.size import KvShape, kv_token

FILE = Path(__file__).with_name("models.toml")


class ModelPreset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model. Either it has KV heads, or MLA's latent vector (DeepSeek-AI, arXiv 2405.04434, 2.1)."""

    id: str
    name: str
    num_layers: int
    element_bytes: float  # of K and V as they are served
    source: str
    dated: date
    num_params: int
    num_kv_heads: int = 0
    head_dim: int = 0
    latent_dim: int = 0  # numbers of the one vector that MLA keeps of a token in a layer

    @property
    def kv_bytes_per_token(self) -> int:
        """2 · layers · Hkv · D · bytes; under MLA layers · latent · bytes."""
        shape = KvShape(self.num_layers, self.num_kv_heads, self.head_dim, self.head_dim, self.latent_dim)
        return int(kv_token(shape, self.element_bytes).value)


@functools.cache
def model_presets() -> tuple[ModelPreset, ...]:
    """The presets, in the order of the file."""
    entries = msgspec.toml.decode(FILE.read_bytes(), type=dict[str, list[ModelPreset]])
    return tuple(entries["model"])


def preset_payload() -> list[dict[str, object]]:
    """The presets as the page has them: what K and V take, and the bytes that follow from it."""
    return [{**_but_params(preset), "kv_bytes_per_token": preset.kv_bytes_per_token} for preset in model_presets()]


def _but_params(preset: ModelPreset) -> dict[str, object]:
    return {name: value for name, value in msgspec.to_builtins(preset).items() if name != "num_params"}


class GpuPreset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One GPU, by its data sheet: decimal units, and FLOP/s without sparsity."""

    id: str
    name: str
    memory_bytes: int
    bytes_per_second: float
    fp16_flops_per_second: float
    source: str
    announced: date


@functools.cache
def gpu_presets() -> tuple[GpuPreset, ...]:
    """The GPUs, in the order of the file."""
    file = Path(__file__).with_name("gpus.toml")
    return tuple(msgspec.toml.decode(file.read_bytes(), type=dict[str, list[GpuPreset]])["gpu"])
