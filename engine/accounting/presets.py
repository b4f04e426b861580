"""Models of other sizes: what each keeps of a token, with the source and the date of its figures (`models.toml`)."""

from __future__ import annotations

import functools
from datetime import date
from pathlib import Path

import msgspec
from msgspec import Struct

from engine.accounting.size import KvShape, kv_token

FILE = Path(__file__).with_name("models.toml")
COUNTED = (  # what only the work of a step needs
    "num_params", "num_active_params", "num_heads", "hidden_size", "intermediate_size", "vocab_size", "max_position",
    "tie_word_embeddings",
)  # fmt: skip


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
    num_heads: int = 0  # query heads; 0: not given, and then the work of its steps cannot be counted
    hidden_size: int = 0
    intermediate_size: int = 0  # 0: not given; nothing is counted from it
    vocab_size: int = 0
    max_position: int = 0
    tie_word_embeddings: bool = False
    num_active_params: int | None = None

    @property
    def is_counted(self) -> bool:
        """Whether enough of it is given for a `ModelShape`: the work of its steps can be counted."""
        return min(self.num_heads, self.num_kv_heads, self.hidden_size, self.vocab_size, self.max_position) > 0

    @property
    def dtype(self) -> str:
        """Of the weights, as of K and V."""
        return "float16"

    @property
    def v_head_dim(self) -> int:
        """Values are as wide as keys in all of them."""
        return self.head_dim

    @property
    def sliding_windows(self) -> list[int | None]:
        """All layers see everything in all of them."""
        return [None] * self.num_layers

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
    return {name: value for name, value in msgspec.to_builtins(preset).items() if name not in COUNTED}


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
