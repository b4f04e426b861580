"""Per-sequence cache of layers: keys and values, one latent vector, or a state of constant size."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from engine.accounting.weights import WeightStore

LayerKind = Literal["full", "sliding", "latent", "index", "cross", "state"]


class KvShape(Struct, frozen=True):
    """Group of identical layers, and the cache of each.

    Cached are, per token, a key and a value for each KV head, or one latent vector (MLA; DeepSeek-AI, arXiv 2405.04434,
    2.1); or, per sequence, a state (linear attention, Mamba, short convolutions).
    """

    num_layers: int
    num_kv_heads: int = 0
    head_dim: int = 0
    v_head_dim: int = 0
    latent_dim: int = 0
    window: int = 0  # number of latest tokens that stay cached; 0: all
    state: int = 0  # numbers of a sequence's state
    role: Literal["", "cross", "index"] = ""  # cross: caches the encoder's tokens; index: keys that select tokens
    wide_state: int = 0  # of `state`: numbers stored in float32

    @property
    def kind(self) -> LayerKind:
        """Kind of the layers."""
        if self.role:
            return self.role
        if self.state:
            return "state"
        if self.latent_dim:
            return "latent"
        return "sliding" if self.window else "full"

    @property
    def elements(self) -> int:
        """Numbers cached by one layer: per token, or of a state."""
        return self.state or self.latent_dim or self.num_kv_heads * (self.head_dim + self.v_head_dim)


class Architecture(Struct, frozen=True, kw_only=True):
    """Model facts for its memory. A count of 0 is unknown, and results that need it are left out."""

    name: str
    shapes: tuple[KvShape, ...]
    num_params: int
    num_active_params: int | None = None  # of a mixture of experts: parameters used per token
    num_heads: int = 0  # query heads
    hidden_size: int = 0
    intermediate_size: int = 0  # of a mixture of experts: sum over the experts of a token
    vocab_size: int = 0
    max_position: int = 0
    tie_word_embeddings: bool = False
    shipped: WeightStore = WeightStore()  # weight storage of the checkpoint
    element: float | None = None  # bytes per number of K and V, if the checkpoint says so
    unread: tuple[str, ...] = ()  # fields of its configuration that change a size and are not understood
    expanded_dim: int = 0  # under MLA: numbers of a token's keys and values in a layer if cached by heads

    @property
    def embedding_params(self) -> int:
        """Parameters of the input embedding and the output projection: one matrix if tied, else two; 0: unknown."""
        return self.vocab_size * self.hidden_size * (1 if self.tie_word_embeddings else 2)
