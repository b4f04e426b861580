"""A gated delta net that keeps the documents of a packed row apart.

transformers' plain PyTorch code of this layer computes along the whole row, so that the state of one document would
flow into the next. At inference a document begins with an empty state; this module lets it do so in training too:
the convolution does not reach back across a document's beginning, and the state decays to nothing there.
"""

from __future__ import annotations

import math

import torch
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5GatedDeltaNet, torch_chunk_gated_delta_rule

# e^-40 is 4e-18. More would cost digits: the rule sums the decays of 64 tokens in float32.
FORGET = -40.0
SHORTEST, LONGEST = 0.001, 0.1  # of the time steps that the heads begin with, as in the reference implementation


class DocumentDeltaNet(Qwen3_5GatedDeltaNet):  # type: ignore[misc]
    """Gated delta net for rows of several documents. It has the weights of the layer that it stands for."""

    def forward(self, hidden_states: torch.Tensor, document_positions: torch.Tensor, **_: object) -> torch.Tensor:
        """The layer's output [B, T, hidden]; `document_positions` [B, T] count from each document's start."""
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
        """The causal convolution [B, T, channels] with zeros for what lies before a token's document."""
        weight = self.conv1d.weight[:, 0]  # [channels, kernel]
        total = mixed * weight[:, -1]
        for back in range(1, self.conv_kernel_size):
            earlier = functional.pad(mixed, (0, 0, back, 0))[:, : mixed.shape[1]]
            total = total + earlier * weight[:, -1 - back] * (document_positions >= back)[..., None]
        return functional.silu(total)


def keep_documents_apart(model: PreTrainedModel) -> None:
    """Let the model's layers with a state run as `DocumentDeltaNet`; their weights stay what they are."""
    for module in model.modules():
        if type(module) is Qwen3_5GatedDeltaNet:
            module.__class__ = DocumentDeltaNet


def spread_decays(model: PreTrainedModel) -> None:
    """Draw the heads' time steps, as the reference implementation does, so that some of them remember long."""
    for module in model.modules():
        if isinstance(module, Qwen3_5GatedDeltaNet):
            low, high = math.log(SHORTEST), math.log(LONGEST)
            steps = torch.empty_like(module.dt_bias).uniform_(low, high).exp_()
            with torch.no_grad():
                module.dt_bias.copy_(steps + (-torch.expm1(-steps)).log())  # the inverse of softplus
