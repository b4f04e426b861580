"""Latent attention (MLA): layers that cache one vector per token, from which all heads are computed.

    module      expand_kv(compressed [1, 1, T, C], rotated [1, 1, T, R]) -> keys, values of all heads
    cached      the two arguments of that call, concatenated, as in transformers' own cache
    prefill     the module expands the cached latents to keys and values
    decode      the expansion is absorbed into the query and the output: each head scores against the latents, and
                sums their compressed parts (`engine.accounting.mla` counts both)

The two matrices of the expansion are computed by expanding the unit vectors, so the module may store its weights in any
form (panels, quantized).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from engine.cache.kv_store import LatentShape
from engine.model.attention import NUMBER_AMONG_KEYS, ProbeContext, StepContext, current

EXPAND = "expand_kv"  # transformers' name of the method, in every model family with such layers


@dataclass
class LatentLayer:
    """Latents of a layer, and their expansion to heads."""

    shape: LatentShape
    module: Any
    expand: Any  # the module's unwrapped `expand_kv`
    key: Tensor | None = None  # [Hq, D - R, C], see `absorb`
    value: Tensor | None = None  # [Hq, C, Dv]

    def expanded(self, latents: Tensor) -> tuple[Tensor, Tensor]:
        """Expand latents [N, C + R] -> keys [N, Hkv, D], values [N, Hkv, Dv]."""
        compressed, rotated = torch.split(latents[None, None], list(self.shape), dim=-1)
        keys, values = self.expand(compressed, rotated)
        return keys[0].transpose(0, 1), values[0].transpose(0, 1)

    def absorb(self, dtype: torch.dtype, device: torch.device) -> None:
        """Compute the matrices of the expansion with the module, in its `dtype`."""
        compressed, rotated = self.shape
        units = torch.eye(compressed, compressed + rotated, dtype=dtype, device=device)
        with torch.inference_mode():
            keys, values = self.expanded(units)  # [C, H, D], [C, H, Dv]
            self.key = keys[..., : keys.shape[-1] - rotated].permute(1, 2, 0).contiguous()
            self.value = values.transpose(0, 1).contiguous()


@dataclass
class Latents:
    """Layers of a model in which every layer caches latents."""

    layers: list[LatentLayer]

    @property
    def shapes(self) -> list[LatentShape]:
        """Shapes of a token's latent, by layer."""
        return [layer.shape for layer in self.layers]

    def expand(self, layer: int, latents: Tensor) -> tuple[Tensor, Tensor]:
        """Compute keys and values of a layer; implements `engine.cache.latent_store.Expand`."""
        return self.layers[layer].expanded(latents)


def find_latents(module: nn.Module, context: ProbeContext) -> Latents | None:
    """Return the latents of a probed model; None if some layer has none, or if the layers' shapes differ."""
    found: dict[int, LatentLayer] = {}
    for part in module.modules():
        owner: Any = part
        if hasattr(owner, EXPAND):
            number = owner.__dict__.get(NUMBER_AMONG_KEYS, owner.layer_idx)
            shape = LatentShape(owner.kv_lora_rank, owner.qk_rope_head_dim)
            found[number] = LatentLayer(shape, owner, getattr(owner, EXPAND))
    same = len({layer.shape for layer in found.values()}) == 1
    return Latents([found[i] for i in sorted(found)]) if same and len(found) == len(context.calls) else None


def install_latents(latents: Latents, dtype: torch.dtype, device: torch.device) -> None:
    """Make each layer pass its latents to the running step; `dtype` is the model's compute dtype."""
    for layer in latents.layers:
        layer.absorb(dtype, device)
        setattr(layer.module, EXPAND, _wrapped(layer.expand))


def _wrapped(expand: Any) -> Any:
    def run(compressed: Tensor, rotated: Tensor) -> Any:
        step = current()
        if isinstance(step, StepContext):
            step.latent = torch.cat((compressed, rotated), dim=-1)[0].transpose(0, 1)  # [T, 1, C + R]
        return expand(compressed, rotated)

    return run
