"""Interface of an attention backend: queries in, outputs and the softmax weights behind them out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from torch import Tensor

from engine.cache.kv_store import KVStore
from engine.model.batch import PrefillSpan, StepBatch


class AttentionCall(NamedTuple):
    """Parameters of a layer's attention besides its tensors."""

    layer: int
    scaling: float
    sliding_window: int | None  # keys a query sees, itself included; None = all before it
    softcap: float | None  # scores become softcap * tanh(scores / softcap)
    sinks: Tensor | None  # [Hq], one extra logit a head that takes part in the softmax and has no value


class PrefillWeights(NamedTuple):
    """Softmax weights of one sequence's slice."""

    span: PrefillSpan
    key_start: int
    weights: Tensor  # [Hq, T, C]


class DecodeWeights(NamedTuple):
    """Softmax weights of all decoding sequences, in the order of `StepBatch.decode_indices`."""

    key_starts: list[int]
    weights: Tensor  # [n, Hq, L]; columns past a sequence's context are 0


class AttentionOutput(NamedTuple):
    """Output of a backend, with the softmax weights that `out` was computed with. A backend that never forms the
    weights omits them unless `needs_weights` is set.
    """

    out: Tensor  # [T, Hq, Dv], contiguous
    decode: DecodeWeights | None
    prefills: list[PrefillWeights]


class AttentionBackend(ABC):
    """Attention of a packed step over the paged store.

    The keys and values of the step's own tokens are in the store already. Causality, sliding window, softcap, scaling,
    sinks and grouped queries (query head h reads KV head h // (Hq / Hkv)) are the backend's task. It reads the store
    and the batch and changes neither.
    """

    reads_tables_only = False  # whether decodes of plain planes read `StepBatch.decode_tables` and nothing else of it

    @abstractmethod
    def forward(
        self, call: AttentionCall, q: Tensor, store: KVStore, batch: StepBatch, needs_weights: bool
    ) -> AttentionOutput:
        """Compute attention for q [T, Hq, D], packed as in `batch`; the result has q's dtype."""
