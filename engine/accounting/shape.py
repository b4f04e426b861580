"""Model facts for the accounting, for a loaded model or from published figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class ModelShape(Protocol):
    """Counts that work and bytes follow from, named as in `ModelFacts`, which is one."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def num_params(self) -> int: ...
    @property
    def num_active_params(self) -> int | None: ...
    @property
    def num_experts(self) -> int: ...  # of a layer, to choose from; 0: none, or not said
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
    def latent_dim(self) -> int: ...  # MLA: numbers of a token that a layer keeps for all heads; 0: it is none
    @property
    def rope_dim(self) -> int: ...  # of them: the rotated key that all heads share
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
    def layer_shapes(self) -> Sequence[Sequence[int]]: ...  # [Hkv, D, Dv] by layer where they differ; empty: all alike


def kv_shapes(facts: ModelShape) -> list[Sequence[int]]:
    """Return [Hkv, D, Dv] of each layer."""
    return list(facts.layer_shapes) or [(facts.num_kv_heads, facts.head_dim, facts.v_head_dim)] * facts.num_layers
