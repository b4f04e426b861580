"""Presets of models, GPUs and links, with a source for each figure (`sources.py`).

The files are `models.toml`, `gpus.toml`, `links.toml` and `layer_times.toml`. A user's files have the same tables.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from engine.accounting.impossible import impossible
from engine.accounting.kv_shape import Architecture, KvShape
from engine.accounting.layer_bytes import kv_token
from engine.accounting.layer_times import LayerTimes, layer_file
from engine.accounting.memory import bytes_per_element
from engine.accounting.sources import Sourced
from engine.accounting.weights import Published, WeightStore, published_in
from engine.accounting.work import embedding_params, expert_params
from engine.options.toml_text import decode_toml

FILE = Path(__file__).with_name("models.toml")
DTYPE = "float16"  # default dtype of published models
COUNTED = (  # fields that only the work of a step or single layers depend on
    "num_params", "num_active_params", "num_experts", "num_experts_per_tok", "num_heads", "hidden_size",
    "intermediate_size", "vocab_size", "max_position", "tie_word_embeddings", "sliding_layers", "window",
    "state_layers", "state_elements", "cross_layers", "rope_dim", "value_dim", "mistaken_for", "published",
    "sources",
)  # fmt: skip


class ModelPreset(Sourced, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Model preset, with KV heads or with MLA's latent vector (DeepSeek-AI, arXiv 2405.04434, 2.1)."""

    num_layers: int
    num_params: int
    element_bytes: float = 2  # bytes per number of K and V as served
    num_kv_heads: int = 0
    head_dim: int = 0
    latent_dim: int = 0  # numbers of MLA's latent vector per token and layer
    rope_dim: int = 0  # part of latent_dim: the rotated key shared by all heads; head_dim includes it
    value_dim: int = 0  # size of a head's values; 0: head_dim
    sliding_layers: int = 0  # number of layers with a window of `window` tokens
    window: int = 0
    state_layers: int = 0  # number of layers with a state of `state_elements` numbers
    state_elements: int = 0
    cross_layers: int = 0  # number of layers, in addition to num_layers, that cache the encoder's tokens
    num_heads: int = 0  # query heads; 0: unknown, so the work of steps cannot be computed
    hidden_size: int = 0
    intermediate_size: int = 0  # sum over the experts of a token; 0: unknown
    vocab_size: int = 0
    max_position: int = 0
    tie_word_embeddings: bool = False
    num_active_params: int | None = None
    num_experts: int = 0  # per layer, without shared experts; a token uses `num_experts_per_tok` of them
    num_experts_per_tok: int = 0
    published: Published | None = None  # format of most of the checkpoint's weights; None: 16 bits
    mistaken_for: str = ""  # id of a model with a similar name

    @property
    def is_counted(self) -> bool:
        """Whether all fields of `ModelShape` are known, so that the work of steps can be computed."""
        cached = self.num_kv_heads or self.latent_dim
        given = min(self.num_heads, cached, self.head_dim, self.hidden_size, self.vocab_size, self.max_position) > 0
        return given and not self.state_layers and not self.cross_layers

    @property
    def dtype(self) -> str:
        return DTYPE

    @property
    def bytes_per_weight(self) -> None:
        """Bytes per weight; None, because the dtype determines them."""
        return None

    @property
    def v_head_dim(self) -> int:
        """Size of a head's values (Dv), which differs from head_dim only for MLA."""
        return self.value_dim or self.head_dim

    @property
    def expanded_dim(self) -> int:
        """MLA: numbers per token and layer if keys and values were cached per head."""
        return self.num_heads * (self.head_dim + self.v_head_dim) if self.latent_dim else 0

    @property
    def layer_shapes(self) -> tuple[()]:
        """Empty, because the layers of a preset have the same shape."""
        return ()

    @property
    def sliding_windows(self) -> list[int | None]:
        """Window of each layer, in an arbitrary order of layers."""
        full = self.num_layers - self.sliding_layers
        return [self.window] * self.sliding_layers + [None] * full

    @property
    def shapes(self) -> tuple[KvShape, ...]:
        """Groups of identical layers."""
        heads, latent = self.num_kv_heads, self.latent_dim
        width = 0 if latent else self.head_dim
        full = self.num_layers - self.sliding_layers - self.state_layers
        found = (
            KvShape(self.state_layers, state=self.state_elements),
            KvShape(self.sliding_layers, heads, width, width, latent, self.window),
            KvShape(full, heads, width, width, latent),
            KvShape(self.cross_layers, heads, width, width, role="cross"),
        )
        return tuple(shape for shape in found if shape.num_layers)

    @property
    def architecture(self) -> Architecture:
        return Architecture(
            name=self.name,
            shapes=self.shapes,
            num_params=self.num_params,
            num_active_params=self.num_active_params,
            num_heads=self.num_heads,
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            vocab_size=self.vocab_size,
            max_position=self.max_position,
            tie_word_embeddings=self.tie_word_embeddings,
            shipped=self.shipped,
            expanded_dim=self.expanded_dim,
        )

    @property
    def shipped(self) -> WeightStore:
        """Weight storage of the checkpoint. MXFP4 quantizes only the experts, FP8 all weights but the embeddings."""
        if self.published is None:
            return WeightStore(each=float(bytes_per_element(DTYPE)))
        unquantized = embedding_params(self)
        if self.published == "mxfp4":
            unquantized = self.num_params - round(self.num_experts * expert_params(self))
        return published_in(self.published, unquantized)

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes per token for identical layers: 2 · layers · Hkv · D · bytes, or layers · latent · bytes for MLA."""
        shape = KvShape(self.num_layers, self.num_kv_heads, self.head_dim, self.head_dim, self.latent_dim)
        return int(kv_token(shape, self.element_bytes).value)


class GpuPreset(Sourced, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """GPU preset by its data sheet, in decimal units, FLOP/s without sparsity. `usable_bytes` is the driver's value."""

    memory_bytes: int
    bytes_per_second: float
    flops_per_second: dict[str, float]  # by dtype of the operands; float16 is required
    usable_bytes: int = 0  # memory reported by the driver; 0: unknown, so `memory_bytes` is used
    announced: date | None = None

    @property
    def room_bytes(self) -> int:
        """Memory to which gpu_memory_utilization applies."""
        return self.usable_bytes or self.memory_bytes

    @property
    def room_figure(self) -> str:
        """Name of the field that `room_bytes` returns."""
        return "usable_bytes" if self.usable_bytes else "memory_bytes"

    def __post_init__(self) -> None:
        """Validate rates and sources.

        Raises:
            ValueError: float16 is missing, a dtype is unknown, a rate is not above 0, or a figure has no source.
        """
        super().__post_init__()
        if DTYPE not in self.flops_per_second:
            raise ValueError(f"flops_per_second of {self.id} needs {DTYPE}")
        for dtype, rate in self.flops_per_second.items():
            bytes_per_element(dtype)
            if not 0 < rate < math.inf:
                raise ValueError(f"flops_per_second of {self.id} in {dtype} must be above 0, not {rate:g}")

    @property
    def fp16_flops_per_second(self) -> float:
        return self.flops_per_second[DTYPE]


class LinkPreset(Sourced, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Link preset by its standard or data sheet, in decimal units."""

    bytes_per_second: float
    both_directions: bool = False  # whether the rate is the sum of both directions
    announced: date | None = None


class PresetFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tables of a file."""

    model: list[ModelPreset] = []
    gpu: list[GpuPreset] = []
    link: list[LinkPreset] = []
    layer: list[LayerTimes] = []


class Presets(NamedTuple):
    """All presets by id, in display order."""

    models: dict[str, ModelPreset]
    gpus: dict[str, GpuPreset]
    links: dict[str, LinkPreset]
    layers: tuple[LayerTimes, ...]

    @property
    def timed_models(self) -> list[ModelPreset]:
        """Models with measured layers whose keys and values are cached by heads."""
        named = {one.model for one in self.layers if one.gpu in self.gpus}
        return [one for one in self.models.values() if one.id in named and one.is_counted and one.num_kv_heads]

    @property
    def timed_gpus(self) -> list[GpuPreset]:
        named = {one.gpu for one in self.layers if one.model in self.models}
        return [one for one in self.gpus.values() if one.id in named]


def presets(own: Sequence[Path] = ()) -> Presets:
    """Return the shipped presets and those of a user's files. Later files override earlier ones.

    Raises:
        ImpossibleInput: a file cannot be read.
    """
    files = [_shipped(), *(read_presets(file) for file in own)]
    return Presets(
        {one.id: one for file in files for one in file.model},
        {one.id: one for file in files for one in file.gpu},
        {one.id: one for file in files for one in file.link},
        tuple({(one.model, one.gpu, one.tensor_parallel): one for file in files for one in file.layer}.values()),
    )


def read_presets(file: Path) -> PresetFile:
    """Return the tables `[[model]]`, `[[gpu]]`, `[[link]]` and `[[layer]]` of a file.

    Raises:
        ImpossibleInput: the file cannot be read, or a table has missing or unknown fields.
    """
    try:
        return decode_toml(file.read_bytes(), PresetFile)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())[:200]
        raise impossible("presets_file", file=str(file), reason=reason) from error


def model_presets() -> tuple[ModelPreset, ...]:
    return tuple(_shipped().model)


def gpu_presets() -> tuple[GpuPreset, ...]:
    return tuple(_shipped().gpu)


@functools.cache
def _shipped() -> PresetFile:
    read = [read_presets(FILE.with_name(name)) for name in ("models.toml", "gpus.toml", "links.toml")]
    return PresetFile(model=read[0].model, gpu=read[1].gpu, link=read[2].link, layer=layer_file().layer)
