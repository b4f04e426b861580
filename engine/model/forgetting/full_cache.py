"""Logits of the same texts under a full cache, for comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from msgspec.structs import replace
from torch import Tensor

from engine.cache.block_moves import BlockMoves
from engine.model.batch import SequenceSlice
from engine.model.loaded import LoadedModel
from engine.model.runner import ModelRunner
from engine.trace.operations import Finish, Fork, Op
from engine.trace.records import FullCacheOutput, Output


class FullCache:
    """Second cache for the same tokens, with one block of `max_model_len` slots per sequence.

    If no block is free, a block of a sequence outside the current step is reused; that sequence is recomputed later.

    Raises:
        ModelError: see `ModelRunner`.
    """

    def __init__(self, model: LoadedModel, num_blocks: int, max_model_len: int, kv_cache_dtype: str) -> None:
        self._runner = ModelRunner(model, num_blocks, max_model_len, max_model_len, kv_cache_dtype)
        self._blocks: dict[int, int] = {}  # by sequence
        self._num_computed: dict[int, int] = {}
        self._free = list(range(num_blocks))

    def logits(self, slices: Sequence[SequenceSlice], texts: Sequence[list[int]]) -> dict[int, Tensor]:
        """Return the logits [V] after each text that a step completes, by sequence. `texts`: token ids by slice."""
        pairs = zip(slices, texts, strict=True)
        complete = {piece.seq_id: text for piece, text in pairs if piece.start + len(piece.token_ids) == len(text)}
        missing = []
        for seq_id, token_ids in complete.items():
            if seq_id not in self._blocks:
                self._claim(seq_id, complete)
            start = self._num_computed[seq_id]
            missing.append(SequenceSlice(seq_id, token_ids[start:], start, [[self._blocks[seq_id]]], samples=True))
            self._num_computed[seq_id] = 0  # unknown if the pass fails
        if not missing:
            return {}
        logits = self._runner.execute(missing).logits
        self._num_computed.update((seq_id, len(token_ids)) for seq_id, token_ids in complete.items())
        return dict(zip(complete, logits, strict=True))

    def follow(self, ops: Iterable[Op]) -> None:
        """Copy blocks for forks if a block is free, and free the blocks of finished sequences."""
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


def last_rows(slices: Sequence[SequenceSlice], logits: Tensor) -> dict[int, Tensor]:
    """Return the row [V] of a step's logits that each sequence samples from, by sequence."""
    rows, at = dict[int, Tensor](), 0
    for piece in slices:
        at += len(piece.token_ids) if piece.all_logits else int(piece.samples)
        if piece.samples:
            rows[piece.seq_id] = logits[at - 1]
    return rows


def compare(
    outputs: Iterable[Output],
    ops: Iterable[Op],
    own: Mapping[int, Tensor],
    full: Mapping[int, Tensor],
    token_bytes: Callable[[int], bytes],
) -> list[Output]:
    """Add the full cache's prediction for the same text to a step's outputs.

    `ops`: operations of the step; sequences forked in it have their parent's logits. `own`, `full`: logits [V] by
    sequence. A beam that waited for others is not compared.
    """
    parents = {op.seq_id: op.parent_seq_id for op in ops if isinstance(op, Fork)}
    found = list[Output]()
    for output in outputs:
        seq_id = output.seq_id
        while seq_id in parents:
            seq_id = parents[seq_id]
        if seq_id in full:
            logprobs, others = (logits[seq_id].double().log_softmax(-1) for logits in (full, own))
            token_id = int(logprobs.argmax())
            prediction = FullCacheOutput(
                divergence=max(0.0, float(torch.sum(logprobs.exp() * (logprobs - others)))),
                token_id=token_id,
                token_bytes=token_bytes(token_id),
                own_token_id=int(others.argmax()),
                logprob=float(logprobs[output.token_id]),
            )
            output = replace(output, full=prediction)
        found.append(output)
    return found
