"""What of a sequence says which class of requests it is of, beside its row: who sent it, how urgent, how it begins."""

from __future__ import annotations

from hashlib import blake2b
from typing import TypeVar

import numpy as np
from msgspec import Struct

from engine.trace.events import Fork, Preempt, Sample, Submit
from engine.trace.parts import RequestParts
from engine.trace.records import Header, StepRecord
from engine.trace.survey.columns import Growing

T = TypeVar("T", str, bytes)
NONE = -1
BEGINNING = 16  # tokens that prompts of one group have in common: a block of vLLM's usual size, whatever the log's is


class ClassColumns(Struct, kw_only=True, array_like=True):
    """One entry a sequence, in the order of `SequenceColumns`. NONE: it has none, or the log does not say."""

    client: list[int] = []  # in `clients`
    priority: list[int] = []
    prefix: list[int] = []  # in `prefixes`; NONE too where the prompt is shorter than BEGINNING
    parent: list[int] = []  # row of the sequence that it was forked from
    before: list[int] = []  # row of the part of the same request that another instance had before
    last_token_in: list[int] = []  # record
    num_preemptions: list[int] = []  # its own: a fork begins with none
    clients: list[str] = []
    prefixes: list[bytes] = []  # a digest of the first BEGINNING tokens
    texts_unknown: bool = False  # token ids are hidden, so prompts cannot be told apart


class ClassRows:
    """The columns, filled record by record."""

    def __init__(self, header: Header) -> None:
        self.columns = ClassColumns(texts_unknown=bool(header.engine.get("private")))
        self.growing = Growing(self.columns, ("last_token_in", "num_preemptions"))
        self._parts = RequestParts(header)
        self._clients: dict[str, int] = {}
        self._prefixes: dict[bytes, int] = {}

    def add(self, record: StepRecord, rows: dict[int, int]) -> None:
        """The next record. `rows`: of every sequence up to it, by seq_id."""
        columns = self.columns
        is_shared, before = self._parts.is_shared, None
        for op in record.ops:
            if is_shared:
                before, _ = self._parts.read(op, record.instance)
            if type(op) is Sample:
                row = rows[op.seq_id]
                columns.last_token_in[row] = record.index
                self.growing.change(row)
            elif type(op) is Preempt:
                row = rows[op.seq_id]
                columns.num_preemptions[row] += 1
                self.growing.change(row)
            elif type(op) is Submit:
                self._new(
                    client=NONE if op.client is None else _place(self._clients, columns.clients, op.client),
                    priority=op.priority,
                    prefix=self._prefix(op.prompt_token_ids),
                    before=NONE if before is None else rows[before],
                )
            elif type(op) is Fork:
                parent = rows[op.parent_seq_id]
                of = {
                    name: getattr(columns, name)[parent] for name in ("client", "priority", "prefix", "last_token_in")
                }
                self._new(**of, parent=parent)

    def _new(self, **given: int) -> None:
        for name in ("client", "priority", "prefix", "parent", "before", "last_token_in"):
            getattr(self.columns, name).append(given.get(name, NONE))
        self.columns.num_preemptions.append(0)

    def _prefix(self, token_ids: list[int]) -> int:
        if len(token_ids) < BEGINNING or self.columns.texts_unknown:
            return NONE
        payload = np.array(token_ids[:BEGINNING], dtype="<i8").tobytes()
        return _place(self._prefixes, self.columns.prefixes, blake2b(payload, digest_size=8).digest())


def _place(places: dict[T, int], values: list[T], value: T) -> int:
    """Where a value stands; it is put there when it is new."""
    found = places.get(value)
    if found is None:
        found = places[value] = len(values)
        values.append(value)
    return found
