"""Models of other sizes: what each keeps of a token, with the source and the date of its figures (`models.toml`)."""

from __future__ import annotations

import functools
from datetime import date
from pathlib import Path

import msgspec
from msgspec import Struct

FILE = Path(__file__).with_name("models.toml")


class ModelPreset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model. Either it has KV heads, or MLA's latent vector (DeepSeek-AI, arXiv 2405.04434, 2.1)."""

    id: str
    name: str
    num_layers: int
    element_bytes: float  # of K and V as they are served
    source: str
    dated: date
    num_kv_heads: int = 0
    head_dim: int = 0
    latent_dim: int = 0  # numbers of the one vector that MLA keeps of a token in a layer

    @property
    def kv_bytes_per_token(self) -> int:
        """2 · layers · Hkv · D · bytes; under MLA layers · latent · bytes."""
        elements = self.latent_dim or 2 * self.num_kv_heads * self.head_dim
        return int(self.num_layers * elements * self.element_bytes)


@functools.cache
def model_presets() -> tuple[ModelPreset, ...]:
    """The presets, in the order of the file."""
    entries = msgspec.toml.decode(FILE.read_bytes(), type=dict[str, list[ModelPreset]])
    return tuple(entries["model"])


def preset_payload() -> list[dict[str, object]]:
    """The presets as the page has them: every field, and the bytes that follow from them."""
    return [
        {**msgspec.to_builtins(preset), "kv_bytes_per_token": preset.kv_bytes_per_token} for preset in model_presets()
    ]
