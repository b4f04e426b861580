"""Rotary position embedding of a model: its inverse, and its mean over positions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from engine.model.errors import ModelError
from engine.options.refusal import sentence


class Rotation:
    """Cosines and sines of a model that rotates queries as Llama does: q cos + rotate_half(q) sin.

    Raises:
        ModelError: the model rotates its queries in another way, or not at all.
    """

    def __init__(self, module: nn.Module, head_dim: int, device: torch.device) -> None:
        self._embed: Callable[..., Any] | None = getattr(getattr(module, "model", None), "rotary_emb", None)
        self._head_dim, self._device = head_dim, device
        half = getattr(sys.modules[type(module).__module__], "rotate_half", None)
        probe = torch.arange(float(head_dim), device=device)
        try:
            fits = half is not None and torch.equal(half(probe), _rotate_half(probe))
            fits = fits and self.at(0, 1)[0].shape == (1, head_dim)
        except Exception as error:  # for example an embedding that also needs the kind of layer, like Gemma 3's
            raise ModelError(sentence("forget.rotation")) from error
        if not fits:
            raise ModelError(sentence("forget.rotation"))

    def at(self, start: int, count: int) -> tuple[Tensor, Tensor]:
        """Return float32 cosines and sines [count, D] of the positions from `start` on."""
        assert self._embed is not None
        positions = torch.arange(start, start + count, device=self._device)[None]
        cos, sin = self._embed(torch.zeros(1, device=self._device), positions)
        return cos[0], sin[0]

    def undo(self, q: Tensor, start: int) -> Tensor:
        """Undo the rotation of queries [T, Hq, D] from position `start` on."""
        cos, sin = (x.to(q.dtype)[:, None] for x in self.at(start, q.shape[0]))
        return (q * cos - _rotate_half(q) * sin) / (cos**2 + sin**2)  # the divisor is their squared scale, usually 1

    def mean(self, start: int, count: int) -> Tensor:
        """Return the mean [D, D] of the rotations at `count` positions from `start` on; mean @ q rotates q."""
        cos, sin = (x.mean(0) for x in self.at(start, count))
        eye = torch.eye(self._head_dim, dtype=cos.dtype, device=cos.device)
        return cos[:, None] * eye + sin[:, None] * _rotate_half(eye).T


def _rotate_half(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)
