"""Forgotten keys of sequences: the query position from which a KV head of a layer no longer sees a key.

    forgotten_at[layer][head, j] = the first query position that does not see key j; NOT_FORGOTTEN: all later ones do

A key j is visible to the query at p iff j <= p < forgotten_at[head, j]. So a sequence that is recomputed after a
preemption, in any chunks, sees the same keys as before. Forgetting is a property of the sequence, not of a block: forks
inherit it, and a decision is never repeated.

A step calls `begin` before the forward pass, `observe` in every layer, `decide` after it, and `follow` at its end.
Observations take effect in `decide`, so a failed step has no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from engine.cache.forget_settings import ForgetSettings
from engine.cache.kv_store import KVStore
from engine.model.attention_backend import AttentionCall, AttentionOutput
from engine.model.batch import SequenceSlice, StepBatch
from engine.model.forgetting.forgotten_keys import choose_forgotten
from engine.model.forgetting.policies import POLICIES, Rows, VisibleKeys
from engine.model.forgetting.rotation import Rotation
from engine.model.loaded import LoadedModel
from engine.options.refusal import Sentence, sentence
from engine.trace.operations import Finish, Forget, Fork, Keep, Op
from engine.trace.records import KeyScores

NOT_FORGOTTEN = 1 << 30


@dataclass(slots=True)
class _Memory:
    """State of a sequence. Its tensors are replaced, never modified."""

    forgotten_at: dict[int, Tensor] = field(default_factory=dict)  # by layer [Hkv, n]; keys after n are not forgotten
    observed: dict[int, Any] = field(default_factory=dict)  # the policy's memory, by layer
    num_observed: int = 0  # number of queries that the policy has observed
    num_decided: int = 0  # number of computed tokens at the last decision
    pinned: frozenset[int] = frozenset()  # positions that are never forgotten

    def copy(self) -> _Memory:
        return _Memory(dict(self.forgotten_at), dict(self.observed), self.num_observed, self.num_decided, self.pinned)


class Scores(NamedTuple):
    """Scores of a decision, for the keys that were visible until then."""

    seq_id: int
    scores: Tensor  # [Hkv, C]
    visible: Tensor  # [Hkv, C]


class Forgetting:
    """Forgotten keys of an engine's sequences, and the policy that selects them.

    Layers with a sliding window do not forget.

    Raises:
        ModelError: the policy cannot score this model's keys.
    """

    def __init__(self, settings: ForgetSettings, model: LoadedModel) -> None:
        self.settings = settings
        kind = POLICIES[settings.policy]
        rotation = Rotation(model.module, model.facts.head_dim, model.device) if kind.needs_rotation else None
        self.policy = kind(settings, rotation)
        self.device = model.device
        self.layers = frozenset(i for i, window in enumerate(model.facts.sliding_windows) if window is None)
        self._memories: dict[int, _Memory] = {}
        self._due: dict[int, int] = {}  # sequences that forget after this step, with their number of computed tokens
        self._pending: dict[int, dict[int, Any]] = {}  # the policy's memories after this step, by sequence and layer
        self._slices: list[SequenceSlice] = []
        self.scores: dict[int, list[Scores]] = {}  # scores of the last step, by layer

    def covers(self, call: AttentionCall) -> bool:
        """Return whether this layer's keys are forgotten."""
        return call.layer in self.layers

    def begin(self, slices: Sequence[SequenceSlice], num_prompt_tokens: Sequence[int]) -> None:
        """Begin a step: record its slices, and the sequences that forget after it."""
        self._slices, self._due, self._pending, self.scores = list(slices), {}, {}, {}
        for piece, num_prompt in zip(slices, num_prompt_tokens, strict=True):
            memory = self._memories.setdefault(piece.seq_id, _Memory())
            end = piece.start + len(piece.token_ids)
            if end > memory.num_decided and self.settings.is_due(end, num_prompt):
                self._due[piece.seq_id] = end

    def hidden(self, layer: int, seq_id: int, start: int, end: int) -> Tensor | None:
        """Return a mask [Hkv, T, C] for queries [start, end) over keys [0, end), True = forgotten, or None."""
        memory = self._memories.get(seq_id)
        forgotten_at = memory.forgotten_at.get(layer) if memory else None
        if forgotten_at is None:
            return None
        queries = torch.arange(start, end, device=forgotten_at.device)
        hidden = queries[None, :, None] >= forgotten_at[:, None, :end]
        return pad(hidden, (0, end - hidden.shape[2])) if hidden.any() else None

    def observe(self, call: AttentionCall, q: Tensor, store: KVStore, batch: StepBatch, found: AttentionOutput) -> None:
        """Pass a layer's queries and their weights to the policy, and score the keys if a decision is due."""
        layer, reach = call.layer, batch.reach(call.layer, call.sliding_window)
        rows: dict[int, tuple[Tensor | None, Tensor]] = {}  # by slice: weights [Hq, T, C], slots of the keys [C]
        for i, index in enumerate(batch.decode_indices):
            end = batch.slices[index].start + 1
            weights = None if found.decode is None else found.decode.weights[i, :, None, :end]
            rows[index] = weights, batch.decode_keys(reach).slots[i, :end]
        prefill_weights = {piece.span.slice_index: piece.weights for piece in found.prefills}
        for span in batch.prefills:
            rows[span.slice_index] = prefill_weights.get(span.slice_index), batch.prefill_keys(span, reach).slots
        for index, piece in enumerate(batch.slices):
            memory, (weights, slots) = self._memories[piece.seq_id], rows[index]
            begin, end = batch.query_start_loc[index : index + 2]
            known = max(memory.num_observed - piece.start, 0)  # queries recomputed after a preemption
            observed = memory.observed.get(layer)
            if known < end - begin:
                trimmed = weights[:, known:] if weights is not None and self.policy.needs_weights else None
                observed = self.policy.observe(observed, Rows(q[begin + known : end], trimmed, piece.start + known))
            self._pending.setdefault(piece.seq_id, {})[layer] = observed
            count = self._due.get(piece.seq_id)
            if count is not None and count > self.settings.budget:
                k, v = (x.transpose(0, 1) for x in store.gather(layer, slots))
                visible = self._visible(memory, layer, k.shape[0], count, k.device)
                scores = self.policy.score(observed, VisibleKeys(k, v, visible, call.scaling, layer))
                self.scores.setdefault(layer, []).append(Scores(piece.seq_id, scores, visible))

    @staticmethod
    def _visible(memory: _Memory, layer: int, num_kv_heads: int, count: int, device: torch.device) -> Tensor:
        """Return a mask [Hkv, count] of the keys that the next query would see if no more keys were forgotten."""
        forgotten_at = memory.forgotten_at.get(layer)
        if forgotten_at is None:
            return torch.ones((num_kv_heads, count), dtype=torch.bool, device=device)
        return pad(forgotten_at > count, (0, count - forgotten_at.shape[1]), value=True)

    def decide(self) -> list[Op]:
        """Forget keys by the step's scores, after the forward pass has succeeded; return the operations."""
        for piece in self._slices:
            memory = self._memories[piece.seq_id]
            memory.observed.update(self._pending.get(piece.seq_id, {}))
            memory.num_observed = max(memory.num_observed, piece.start + len(piece.token_ids))
            memory.num_decided = self._due.get(piece.seq_id, memory.num_decided)
        ops: list[Op] = []
        for layer, scored in sorted(self.scores.items()):
            for seq_id, scores, visible in scored:
                memory, at = self._memories[seq_id], self._due[seq_id]
                forgotten = choose_forgotten(scores, visible, self.settings, memory.pinned)
                if forgotten is None:
                    continue
                before = memory.forgotten_at.get(layer)
                forgotten_at = visible.new_full(visible.shape, NOT_FORGOTTEN, dtype=torch.int64)
                if before is not None:
                    forgotten_at[:, : before.shape[1]] = before
                for head, positions in enumerate(forgotten.positions):
                    forgotten_at[head, positions] = at
                memory.forgotten_at[layer] = forgotten_at
                ops.append(
                    Forget(
                        seq_id=seq_id,
                        layer=layer,
                        at=at,
                        positions=forgotten.positions,
                        scores=forgotten.scores,
                        ranks=forgotten.ranks,
                        lowest_kept=forgotten.lowest_kept,
                    )
                )
        return ops

    def follow(self, ops: Iterable[Op]) -> None:
        """Copy the state for forks, pin tokens of `Keep` operations, and drop the state of finished sequences."""
        for op in ops:
            if isinstance(op, Fork):
                self._memories[op.seq_id] = self._memories[op.parent_seq_id].copy()
            elif isinstance(op, Keep):
                memory = self._memories.setdefault(op.seq_id, _Memory())
                memory.pinned |= {op.position}
            elif isinstance(op, Finish):
                self._memories.pop(op.seq_id, None)

    def release(self) -> None:
        """Drop the tensors of all sequences; no step may follow."""
        self._memories, self._pending, self.scores = {}, {}, {}

    def cannot_keep(self, seq_id: int, position: int, num_tokens: int) -> Sentence | None:
        """Return the reason why a token cannot be pinned, as one sentence, or None if it can."""
        memory, own = self._memories.get(seq_id, _Memory()), self.settings
        if not 0 <= position < num_tokens:
            return sentence("keep.position", seq_id=seq_id, position=position, last=num_tokens - 1)
        if position in memory.pinned:
            return sentence("keep.kept", seq_id=seq_id, position=position)
        if any(bool((x[:, position : position + 1] < NOT_FORGOTTEN).any()) for x in memory.forgotten_at.values()):
            return sentence("keep.forgotten", seq_id=seq_id, position=position)
        if len(memory.pinned) >= own.budget - own.sinks - own.recent:
            return sentence("keep.budget", budget=own.budget)
        return None

    def key_scores(self) -> list[KeyScores]:
        """Return the scores of the last step as recorded in its capture."""
        return [
            KeyScores(
                seq_id=one.seq_id,
                layer=layer,
                scores=one.scores.float().masked_fill(~one.visible, float("nan")).contiguous().cpu().numpy(),
            )
            for layer, scored in sorted(self.scores.items())
            for one in scored
        ]

    def unseen(self, seq_id: int, layers: Sequence[int], num_computed: int, block_size: int) -> list[int]:
        """Return the full blocks of [0, num_computed) that no head of these layers will see again, ascending."""
        memory = self._memories.get(seq_id)
        if memory is None or not all(layer in memory.forgotten_at for layer in layers):
            return []
        num_full = num_computed // block_size
        masks = [self._all_forgotten(memory.forgotten_at[layer], num_computed) for layer in layers]
        forgotten = torch.stack(masks).all(0)[: num_full * block_size]
        forgotten = pad(forgotten, (0, num_full * block_size - forgotten.shape[0]))
        return forgotten.view(num_full, block_size).all(1).nonzero()[:, 0].tolist()

    @staticmethod
    def _all_forgotten(forgotten_at: Tensor, num_computed: int) -> Tensor:
        mask = (forgotten_at <= num_computed).all(0)
        return pad(mask, (0, num_computed - mask.shape[0])) if mask.shape[0] < num_computed else mask[:num_computed]


class ReplayedForgetting(Forgetting):
    """Forgotten keys of one sequence, read from its log, for a pass that recomputes it without new decisions."""

    def __init__(self, seq_id: int, forgotten: Iterable[Forget], like: Forgetting) -> None:
        self.settings, self.policy, self.layers, self.device = like.settings, like.policy, like.layers, like.device
        self._memories, self._due, self._pending, self.scores = {}, {}, {}, {}
        memory = self._memories[seq_id] = _Memory()
        for op in forgotten:
            forgotten_at = torch.full((len(op.positions), op.at), NOT_FORGOTTEN, dtype=torch.int64, device=self.device)
            before = memory.forgotten_at.get(op.layer)
            if before is not None:
                forgotten_at[:, : before.shape[1]] = before
            for head, positions in enumerate(op.positions):
                forgotten_at[head, positions] = op.at
            memory.forgotten_at[op.layer] = forgotten_at

    def observe(self, call: AttentionCall, q: Tensor, store: KVStore, batch: StepBatch, found: AttentionOutput) -> None:
        """Do nothing."""
