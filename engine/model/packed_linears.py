"""Linear layers whose weights lie in panels of 16 columns, the only copy of them, for any number of tokens.

    W [N, K]   ->   panels [N / 16, K, 16]        `linear_panels` in linear.c

From a plain layout a product of few rows reads each weight from another page, or once a row; from panels it reads each
once, in order. An embedding that shares the weight of a linear layer reads its rows from the panels too.

Compiled code calls the C function directly, by the name of the operation's C shim, without Python or torch's dispatcher
in between.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from engine.model.native import linear_kernel

PANEL = 16  # columns; LANES in kernels/vectors.h

torch.library.define("kvtheater::linear", "(Tensor x, Tensor panels) -> Tensor")
PACKED = torch.ops.kvtheater.linear.default
OPTIONS: dict[str, Any] = {
    "aot_inductor.custom_ops_to_c_shims": {
        PACKED: [
            "AOTITorchError aoti_torch_cpu_linear(AtenTensorHandle x, AtenTensorHandle panels, AtenTensorHandle* out)"
        ]
    }
}


@torch.library.impl("kvtheater::linear", "CPU")
def _linear(x: Tensor, panels: Tensor) -> Tensor:
    """x [..., K] times the weights in `panels` -> [..., N]."""
    kernel = linear_kernel()
    return x @ unpacked(panels).t() if kernel is None else kernel.multiply(x, panels)


@torch.library.register_fake("kvtheater::linear")  # type: ignore[untyped-decorator]
def _linear_shape(x: Tensor, panels: Tensor) -> Tensor:
    return x.new_empty((*x.shape[:-1], panels.shape[0] * PANEL))


def packed(weight: Tensor) -> Tensor:
    """Panels [N / 16, K, 16] of a weight [N, K], a copy; N is a multiple of 16."""
    return weight.reshape(-1, PANEL, weight.shape[1]).transpose(1, 2).contiguous()


def unpacked(panels: Tensor) -> Tensor:
    """The weight [N, K], a copy."""
    return panels.transpose(1, 2).flatten(0, 1)


class _Packed(nn.Module):
    """What holds a weight in panels, and gives it away plain."""

    panels: nn.Parameter

    @property
    def weight(self) -> Tensor:
        """[N, K], a copy: what is written into it changes nothing."""
        return unpacked(self.panels.detach())

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """As of the module that it replaced."""
        destination[f"{prefix}weight"] = self.weight
        super()._save_to_state_dict(destination, prefix, keep_vars)
        del destination[f"{prefix}panels"]


class PackedLinear(_Packed):
    """`nn.Linear` of a float32 weight on the CPU."""

    def __init__(self, panels: nn.Parameter, bias: nn.Parameter | None) -> None:
        super().__init__()
        self.panels = panels
        self.bias = bias
        self.in_features, self.out_features = panels.shape[1], panels.shape[0] * PANEL

    def forward(self, x: Tensor) -> Tensor:
        """x [..., K] -> [..., N]."""
        if torch.compiler.is_exporting() or (kernel := linear_kernel()) is None:
            y: Tensor = PACKED(x.contiguous(), self.panels)
        else:  # without torch's dispatcher, which takes longer than a small product
            y = kernel.multiply(x, self.panels)
        return y if self.bias is None else y + self.bias


class PackedEmbedding(_Packed):
    """`nn.Embedding` of a weight that a `PackedLinear` has in panels."""

    def __init__(self, panels: nn.Parameter) -> None:
        super().__init__()
        self.panels = panels
        self.num_embeddings, self.embedding_dim = panels.shape[0] * PANEL, panels.shape[1]

    def forward(self, ids: Tensor) -> Tensor:
        """ids [...] -> [..., K]: of each id a column of a panel, in K cache lines."""
        return self.panels.transpose(1, 2)[ids // PANEL, ids % PANEL]


def pack_linears(module: nn.Module) -> int:
    """Replace in place every `nn.Linear` of a module that can be packed, and embeddings that share a packed weight;
    returns how many linear layers. The plain weights are freed, one by one.
    """
    places: dict[int, list[tuple[nn.Module, str, nn.Linear | nn.Embedding]]] = {}  # by the weight
    for owner in list(module.modules()):
        for name, part in owner.named_children():
            # Subclasses (quantized layers, adapters) may give `weight` another meaning.
            if type(part) is nn.Linear and _is_packable(part.weight):
                places.setdefault(id(part.weight), []).append((owner, name, part))
    if not places or linear_kernel() is None:
        return 0
    for owner in list(module.modules()):
        for name, part in owner.named_children():
            if isinstance(part, nn.Embedding) and id(part.weight) in places and shares_panels(part):
                places[id(part.weight)].append((owner, name, part))
    count = 0
    while places:
        _, sharing = places.popitem()
        panels = nn.Parameter(packed(sharing[0][2].weight.detach()), requires_grad=False)
        new: dict[int, nn.Module] = {}  # by the module that it replaces, which may stand in several places
        for owner, name, part in sharing:
            if id(part) not in new:
                if isinstance(part, nn.Linear):
                    new[id(part)] = PackedLinear(panels, part.bias)
                    count += 1
                else:
                    new[id(part)] = PackedEmbedding(panels)
            setattr(owner, name, new[id(part)].train(part.training))
        del sharing, owner, part
    return count


def shares_panels(embedding: nn.Embedding) -> bool:
    """Whether an embedding of a float32 weight on the CPU can have it from a linear layer's panels: not if its class
    does more than look up (one scales, say). Else each of the two has a copy.
    """
    plain = type(embedding) is nn.Embedding and embedding.max_norm is None
    return plain and embedding.num_embeddings % PANEL == 0 and linear_kernel() is not None


def _is_packable(weight: Tensor) -> bool:
    return weight.dtype == torch.float32 and weight.device.type == "cpu" and weight.shape[0] % PANEL == 0
