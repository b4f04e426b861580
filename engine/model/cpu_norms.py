"""RMS normalisation in fewer operations on the CPU.

    y = x / sqrt(mean(x^2) + eps) * w  =  x / hypot(|x|, sqrt(d eps)) * (w sqrt(d))        (d = width)

Models write this as seven tensor operations, whose overhead for one token is several times the arithmetic. A module is
replaced only if its outputs agree with this formula, so no model family is named here.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import torch
from torch import Tensor, nn

_EPS_NAMES = ("variance_epsilon", "eps", "epsilon")


class FastRMSNorm(nn.Module):
    """RMS norm of float32 x [..., d] with a scale [d]."""

    def __init__(self, scale: Tensor, eps: float) -> None:
        super().__init__()
        width = scale.shape[0]
        self.scaled = nn.Buffer(scale.detach() * math.sqrt(width), persistent=False)
        self.floor = nn.Buffer(torch.tensor(math.sqrt(eps * width)), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if torch.compiler.is_exporting():  # compiled code is one loop anyway, and hypot would not be vectorized
            return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + self.floor * self.floor) * self.scaled
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return (x / torch.hypot(norm, self.floor)).mul_(self.scaled)


def replace_rms_norms(module: nn.Module) -> int:
    """Replace every float32 RMS norm on the CPU that agrees with the formula, in place; return the number of them."""
    replaced = 0
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            fast = _equivalent(child) if "RMSNorm" in type(child).__name__ else None
            if fast is not None:
                setattr(parent, name, fast)
                replaced += 1
    return replaced


def _equivalent(norm: Any) -> FastRMSNorm | None:
    """Return a fast norm with the same results, or None. The module may store its weight as w or as w - 1."""
    weight = getattr(norm, "weight", None)
    eps = next((getattr(norm, name) for name in _EPS_NAMES if isinstance(getattr(norm, name, None), float)), None)
    if not isinstance(weight, Tensor) or weight.dim() != 1 or eps is None:
        return None
    if len(inspect.signature(norm.forward).parameters) != 1:  # a norm with a gate, which the fast form lacks
        return None
    if weight.dtype != torch.float32 or weight.device.type != "cpu":
        return None
    generator = torch.Generator().manual_seed(0)
    # The second row is so small that eps matters.
    x = torch.randn((2, 3, weight.shape[0]), generator=generator) * torch.tensor([[[1.0]], [[math.sqrt(eps)]]])
    try:
        with torch.inference_mode():
            expected = norm(x)
            for scale in (weight, weight + 1):
                fast = FastRMSNorm(scale, eps)
                fast.__dict__["weight"] = weight  # not registered; some model families read a norm's weight.dtype
                if torch.allclose(fast(x), expected, rtol=1e-5, atol=1e-6):
                    return fast
    except Exception:  # a norm with other inputs is not replaced
        return None
    return None
