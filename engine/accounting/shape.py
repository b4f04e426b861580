"""Model facts for accounting, of a loaded model or from published figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class ModelShape(Protocol):
    """Counts that determine work and bytes. `ModelFacts` implements it."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def num_params(self) -> int: ...
    @property
    def num_active_params(self) -> int | None: ...
    @property
    def num_experts(self) -> int: ...  # per layer; 0: none, or unknown
    @property
    def num_experts_per_tok(self) -> int: ...
    @property
    def num_layers(self) -> int: ...
    @property
    def hidden_size(self) -> int: ...
    @property
    def num_heads(self) -> int: ...
    @property
    def num_kv_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def v_head_dim(self) -> int: ...
    @property
    def latent_dim(self) -> int: ...  # MLA: numbers cached per token and layer for all heads; 0: no MLA
    @property
    def rope_dim(self) -> int: ...  # part of latent_dim: the rotated key shared by all heads
    @property
    def vocab_size(self) -> int: ...
    @property
    def max_position(self) -> int: ...
    @property
    def bytes_per_weight(self) -> float | None: ...
    @property
    def tie_word_embeddings(self) -> bool: ...
    @property
    def sliding_windows(self) -> Sequence[int | None]: ...
    @property
    def layer_shapes(self) -> Sequence[Sequence[int]]: ...  # [Hkv, D, Dv] by layer if they differ; empty: identical


def kv_shapes(facts: ModelShape) -> list[Sequence[int]]:
    """Return [Hkv, D, Dv] of each layer."""
    return list(facts.layer_shapes) or [(facts.num_kv_heads, facts.head_dim, facts.v_head_dim)] * facts.num_layers
