"""Logits of the same texts under a full cache, for comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from engine.cache.block_moves import BlockMoves
from engine.model.batch import SequenceSlice
from engine.model.loaded import LoadedModel
from engine.model.runner import ModelRunner
from engine.trace.events import Finish, Fork, Op


class FullCache:
    """A second cache that gets the tokens of the first: one block of `max_model_len` slots for each sequence.

    A sequence that finds no block takes one of a sequence that is not asked for, which is computed again later.

    Raises:
        ModelError: as `ModelRunner`.
    """

    def __init__(self, model: LoadedModel, num_blocks: int, max_model_len: int, kv_cache_dtype: str) -> None:
        self._runner = ModelRunner(model, num_blocks, max_model_len, max_model_len, kv_cache_dtype)
        self._blocks: dict[int, int] = {}  # by sequence
        self._num_computed: dict[int, int] = {}
        self._free = list(range(num_blocks))

    def logits(self, texts: dict[int, list[int]]) -> Tensor:
        """Return the logits [S, V] after each text, by sequence; each has grown since it was here last."""
        slices = []
        for seq_id, token_ids in texts.items():
            if seq_id not in self._blocks:
                self._claim(seq_id, texts)
            start = self._num_computed[seq_id]
            slices.append(SequenceSlice(seq_id, token_ids[start:], start, [[self._blocks[seq_id]]], samples=True))
            self._num_computed[seq_id] = 0  # unknown, should the pass fail
        logits = self._runner.execute(slices).logits
        self._num_computed.update((seq_id, len(token_ids)) for seq_id, token_ids in texts.items())
        return logits

    def follow(self, ops: Iterable[Op]) -> None:
        """Copy for forks where a block is free, and free those of finished sequences."""
        for op in ops:
            if isinstance(op, Finish):
                self._drop(op.seq_id)
            elif isinstance(op, Fork) and op.parent_seq_id in self._blocks and self._free:
                self._blocks[op.seq_id] = self._free.pop()
                self._num_computed[op.seq_id] = self._num_computed[op.parent_seq_id]
                pair = self._blocks[op.parent_seq_id], self._blocks[op.seq_id]
                self._runner.move_blocks([BlockMoves([], [], [pair])])

    def _claim(self, seq_id: int, others: Iterable[int]) -> None:
        if not self._free:
            self._drop(next(known for known in self._blocks if known not in set(others)))
        self._blocks[seq_id], self._num_computed[seq_id] = self._free.pop(), 0

    def _drop(self, seq_id: int) -> None:
        if seq_id in self._blocks:
            self._free.append(self._blocks.pop(seq_id))
            del self._num_computed[seq_id]


def divergences(full: Tensor, own: Tensor) -> list[float]:
    """Return the KL divergence of each row's distribution from that of the full cache, in nats."""
    full, own = (torch.log_softmax(logits.double(), dim=-1) for logits in (full, own))
    return torch.sum(full.exp() * (full - own), dim=-1).clamp(min=0).tolist()


def last_rows(slices: Sequence[SequenceSlice]) -> dict[int, int]:
    """Return the row of a step's logits that each sampling sequence samples from."""
    rows, at = dict[int, int](), 0
    for piece in slices:
        at += len(piece.token_ids) if piece.all_logits else int(piece.samples)
        if piece.samples:
            rows[piece.seq_id] = at - 1
    return rows
