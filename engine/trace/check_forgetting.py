"""Checks of KV cache compression: decisions respect the budget, and no weight goes to forgotten keys."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.trace.check_ops import Wrong
from engine.trace.operations import Finish, Forget, Fork, Keep
from engine.trace.records import AttentionRows, Capture, Header, StepRecord

SLACK = 2.0**-13  # relative; scores closer than this count as equal, in which case the earlier token is retained

Head = tuple[int, int]  # layer, KV head


class _Forgotten:
    """Forgotten keys of a sequence, position -> `Forget.at`. Those before its last fork (`_base`) are shared."""

    __slots__ = ("_base", "_own")

    def __init__(self, base: _Forgotten | None = None) -> None:
        self._own: dict[Head, dict[int, int]] = {}
        self._base = base

    def of(self, head: Head) -> dict[int, int]:
        if self._base is None:
            return self._own.setdefault(head, {})
        found: dict[int, int] = {}
        part: _Forgotten | None = self
        while part is not None:
            found |= part._own.get(head, {})
            part = part._base
        return found

    def add(self, head: Head, positions: list[int], at: int) -> None:
        self._own.setdefault(head, {}).update(dict.fromkeys(positions, at))

    def holds(self, position: int) -> bool:
        part: _Forgotten | None = self
        while part is not None:
            if any(position in forgotten for forgotten in part._own.values()):
                return True
            part = part._base
        return False

    def shared(self) -> _Forgotten:
        """Return the part that a fork shares. It is not modified any more."""
        return self if self._own or self._base is None else self._base


class ForgettingChecker:
    """Checks of the forgotten tokens of each sequence. Pass each record in order."""

    def __init__(self, header: Header) -> None:
        self._engine, self._model = header.engine, header.model
        self._forgotten: dict[int, _Forgotten] = {}  # by sequence
        self._pinned: dict[int, set[int]] = {}
        self._ended: list[int] = []

    def wrong_in(self, record: StepRecord) -> Iterator[Wrong]:
        """Yield each contradiction in a record's operations, with the index of the operation."""
        for seq_id in self._ended:  # sequences that ended in the previous record, whose capture is checked by now
            self._forgotten.pop(seq_id, None)
            self._pinned.pop(seq_id, None)
        self._ended.clear()
        for position, op in enumerate(record.ops):
            if isinstance(op, Forget):
                yield from ((position, f"forget: {message}") for message in self._forget(op))
            elif isinstance(op, Keep):
                self._pinned.setdefault(op.seq_id, set()).add(op.position)
                if op.seq_id in self._forgotten and self._forgotten[op.seq_id].holds(op.position):
                    yield position, f"keep: position {op.position} is forgotten already"
            elif isinstance(op, Fork):
                if op.parent_seq_id in self._forgotten:
                    base = self._forgotten[op.parent_seq_id].shared()
                    self._forgotten[op.parent_seq_id], self._forgotten[op.seq_id] = _Forgotten(base), _Forgotten(base)
                self._pinned[op.seq_id] = set(self._pinned.get(op.parent_seq_id, ()))
            elif isinstance(op, Finish):
                self._ended.append(op.seq_id)

    def _forget(self, op: Forget) -> Iterator[str]:
        budget = self._engine.get("forget_budget")
        if not isinstance(budget, int):
            yield "the header has no forget_budget"
            return
        if not 0 <= op.layer < self._model.num_layers:
            yield f"there is no layer {op.layer}; the model has {self._model.num_layers}"
            return
        heads, _, _ = self._model.kv_shape(op.layer)
        if len(op.positions) != heads:
            yield f"positions of {len(op.positions)} KV heads, but layer {op.layer} has {heads}"
            return
        sequence = self._forgotten.setdefault(op.seq_id, _Forgotten())
        for head, positions in enumerate(op.positions):
            forgotten = sequence.of((op.layer, head))
            if len(set(positions)) < len(positions) or any(position in forgotten for position in positions):
                yield f"KV head {head} forgets a token twice"
            if pinned := self._pinned.get(op.seq_id, set()) & set(positions):
                yield f"KV head {head} forgets position {min(pinned)}, which a keep operation protects"
            sequence.add((op.layer, head), positions, op.at)
            forgotten |= dict.fromkeys(positions, op.at)
            if op.at - len(forgotten) != budget:
                yield f"KV head {head} keeps {op.at - len(forgotten)} tokens, but forget_budget is {budget}"
            lowest, best = op.lowest_kept[head], max(op.scores[head], default=None)
            if lowest is not None and best is not None and best > lowest + SLACK * abs(lowest):
                yield f"KV head {head} forgets a token with score {best}, but keeps one with {lowest}"

    def wrong_in_capture(self, capture: Capture) -> Iterator[str]:
        """Yield a sentence for each array with a weight on a forgotten key. Pass the capture's record first.

        Layers that the model does not have are reported by `check_arrays.wrong_in_capture`.
        """
        for layer in capture.layers:
            for rows in layer.rows if 0 <= layer.layer < self._model.num_layers else ():
                forgotten = self._forgotten.get(rows.seq_id)
                if forgotten and rows.weights.ndim == 3 and self._wrong_weights(rows, layer.layer, forgotten):
                    yield f"layer {layer.layer}: sequence {rows.seq_id} gives weight to a key that it has forgotten"

    def _wrong_weights(self, rows: AttentionRows, layer: int, forgotten: _Forgotten) -> bool:
        _, num_queries, num_keys = rows.weights.shape
        queries = np.arange(num_queries) + rows.query_start
        group = max(self._model.num_heads // self._model.kv_shape(layer)[0], 1)  # query heads of a KV head
        for index, head in enumerate(rows.heads[: rows.weights.shape[0]]):
            own = forgotten.of((layer, head // group))
            keys = [(p - rows.key_start, at) for p, at in own.items() if 0 <= p - rows.key_start < num_keys]
            if not keys:
                continue
            columns, ats = (np.array(part) for part in zip(*keys, strict=True))
            if (rows.weights[index][:, columns] * (queries[:, None] >= ats[None])).any():
                return True
        return False
