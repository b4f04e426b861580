"""Interface of an attention backend: takes queries, returns outputs and their softmax weights."""

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
    sliding_window: int | None  # number of keys that a query sees, including its own; None = all up to its own
    softcap: float | None  # scores become softcap * tanh(scores / softcap)
    sinks: Tensor | None  # [Hq], an extra logit per head that takes part in the softmax and has no value


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
    """Output of a backend, and the softmax weights it was computed with. A backend that never forms the weights omits
    them unless `needs_weights` is set.
    """

    out: Tensor  # [T, Hq, Dv], contiguous
    decode: DecodeWeights | None
    prefills: list[PrefillWeights]


class AttentionBackend(ABC):
    """Attention of a packed step over the paged store.

    The keys and values of the step's tokens are already in the store. The backend applies causality, sliding window,
    softcap, scaling, sinks and grouped queries (query head h reads KV head h // (Hq / Hkv)). It modifies neither the
    store nor the batch.
    """

    reads_tables_only = False  # whether decodes of plain planes read only `decode_tables` of the batch

    @abstractmethod
    def forward(
        self, call: AttentionCall, q: Tensor, store: KVStore, batch: StepBatch, needs_weights: bool
    ) -> AttentionOutput:
        """Compute attention for q [T, Hq, D], packed as in `batch`; the result has q's dtype."""
