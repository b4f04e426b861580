"""A gated delta net that separates the documents of a packed row.

In transformers' PyTorch code of this layer, the state of one document continues into the next one of the row. At
inference a document begins with an empty state. This module does the same in training: the convolution does not reach
across the beginning of a document, and the state decays to nothing there.
"""

from __future__ import annotations

import math

import torch
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5GatedDeltaNet, torch_chunk_gated_delta_rule

# decay at the beginning of a document, e^-40 = 4e-18; a larger one loses digits, since decays of 64 tokens are summed
FORGET = -40.0
SHORTEST, LONGEST = 0.001, 0.1  # initial time steps of the heads, as in the reference implementation


class DocumentDeltaNet(Qwen3_5GatedDeltaNet):  # type: ignore[misc]
    """Gated delta net for rows of several documents, with the same weights as the layer that it replaces."""

    def forward(self, hidden_states: torch.Tensor, document_positions: torch.Tensor, **_: object) -> torch.Tensor:
        """Return the output [B, T, hidden]. `document_positions` [B, T]: positions from the start of each document."""
        mixed = self._convolved(self.in_proj_qkv(hidden_states), document_positions)
        shapes = (self.head_k_dim, self.head_k_dim, self.head_v_dim)
        parts = torch.split(mixed, [self.key_dim, self.key_dim, self.value_dim], dim=-1)
        query, key, value = (part.reshape(*part.shape[:-1], -1, size) for part, size in zip(parts, shapes, strict=True))
        decay = -self.A_log.float().exp() * functional.softplus(self.in_proj_a(hidden_states).float() + self.dt_bias)
        decay = torch.where(document_positions[..., None] == 0, FORGET, decay)  # [B, T, heads]
        out, _state = torch_chunk_gated_delta_rule(
            query, key, value, g=decay, beta=self.in_proj_b(hidden_states).sigmoid(), use_qk_l2norm_in_kernel=True
        )
        gate = self.in_proj_z(hidden_states).reshape(out.shape)
        result: torch.Tensor = self.out_proj(self.norm(out, gate).flatten(-2))
        return result

    def _convolved(self, mixed: torch.Tensor, document_positions: torch.Tensor) -> torch.Tensor:
        """Return the causal convolution [B, T, channels], with zeros before the beginning of a document."""
        weight = self.conv1d.weight[:, 0]  # [channels, kernel]
        total = mixed * weight[:, -1]
        for back in range(1, self.conv_kernel_size):
            earlier = functional.pad(mixed, (0, 0, back, 0))[:, : mixed.shape[1]]
            total = total + earlier * weight[:, -1 - back] * (document_positions >= back)[..., None]
        return functional.silu(total)


def separate_documents(model: PreTrainedModel) -> None:
    """Replace the class of the model's layers with a state by `DocumentDeltaNet`. The weights do not change."""
    for module in model.modules():
        if type(module) is Qwen3_5GatedDeltaNet:
            module.__class__ = DocumentDeltaNet


def spread_decays(model: PreTrainedModel) -> None:
    """Draw the time steps of the heads as the reference implementation does, so that some have a long memory."""
    for module in model.modules():
        if isinstance(module, Qwen3_5GatedDeltaNet):
            low, high = math.log(SHORTEST), math.log(LONGEST)
            steps = torch.empty_like(module.dt_bias).uniform_(low, high).exp_()
            with torch.no_grad():
                module.dt_bias.copy_(steps + (-torch.expm1(-steps)).log())  # the inverse of softplus
