"""Per-sequence cache of layers: keys and values, one latent vector, or a state of constant size."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from engine.accounting.weights import WeightStore

LayerKind = Literal["full", "sliding", "latent", "index", "cross", "state"]


class KvShape(Struct, frozen=True):
    """Group of identical layers and the cache of each layer.

    The cache has, per token, a key and a value for each KV head or one latent vector (MLA; DeepSeek-AI, arXiv
    2405.04434, 2.1), or, per sequence, a state (linear attention, Mamba, short convolutions).
    """

    num_layers: int
    num_kv_heads: int = 0
    head_dim: int = 0
    v_head_dim: int = 0
    latent_dim: int = 0
    window: int = 0  # number of latest tokens that are cached; 0: all tokens
    state: int = 0  # size of a sequence's state in numbers
    role: Literal["", "cross", "index"] = ""  # cross: caches the encoder's tokens; index: keys that select tokens
    wide_state: int = 0  # of `state`: numbers stored in float32

    @property
    def kind(self) -> LayerKind:
        if self.role:
            return self.role
        if self.state:
            return "state"
        if self.latent_dim:
            return "latent"
        return "sliding" if self.window else "full"

    @property
    def elements(self) -> int:
        """Numbers that one layer caches per token, or per sequence for a state."""
        return self.state or self.latent_dim or self.num_kv_heads * (self.head_dim + self.v_head_dim)


class Architecture(Struct, frozen=True, kw_only=True):
    """Facts of a model that determine its memory. A count of 0 is unknown; results that need it are omitted."""

    name: str
    shapes: tuple[KvShape, ...]
    num_params: int
    num_active_params: int | None = None  # for a mixture of experts: parameters used per token
    num_heads: int = 0  # query heads
    hidden_size: int = 0
    intermediate_size: int = 0  # for a mixture of experts: sum over the experts of a token
    vocab_size: int = 0
    max_position: int = 0
    tie_word_embeddings: bool = False
    shipped: WeightStore = WeightStore()  # weight storage of the checkpoint
    element: float | None = None  # bytes per number of K and V, if the checkpoint defines them
    unread: tuple[str, ...] = ()  # fields of the configuration that change a size but are not supported
    expanded_dim: int = 0  # MLA: numbers per token and layer if keys and values were cached per head

    @property
    def embedding_params(self) -> int:
        """Parameters of input embedding and output projection (one matrix if tied, otherwise two); 0: unknown."""
        return self.vocab_size * self.hidden_size * (1 if self.tie_word_embeddings else 2)
