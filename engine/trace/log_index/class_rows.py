"""Request class of a sequence: client, priority, beginning of the prompt."""

from __future__ import annotations

from hashlib import blake2b
from typing import TypeVar

import numpy as np
from msgspec import Struct

from engine.trace.operations import Submit

T = TypeVar("T", str, bytes)
NONE = -1
BEGINNING = 16  # leading tokens that prompts of one class share: vLLM's default block size, whatever the log's is


class ClassColumns(Struct, kw_only=True, array_like=True):
    """Columns with one entry per sequence, in the order of `SequenceColumns`. NONE: absent, or not in the log."""

    client: list[int] = []  # in `clients`
    priority: list[int] = []
    prefix: list[int] = []  # in `prefixes`; also NONE if the prompt is shorter than BEGINNING
    parent: list[int] = []  # row of the sequence it was forked from
    before: list[int] = []  # row of the request's previous part, on another instance
    last_token_in: list[int] = []  # record
    num_preemptions: list[int] = []  # without those of a fork's parent
    clients: list[str] = []
    prefixes: list[bytes] = []  # digests of the first BEGINNING tokens
    texts_unknown: bool = False  # token ids are redacted, so prompts cannot be distinguished


class Classes:
    """Fills `client`, `priority` and `prefix`, and the values that they index."""

    def __init__(self, columns: ClassColumns) -> None:
        self._columns = columns
        self._clients: dict[str, int] = {}
        self._prefixes: dict[bytes, int] = {}

    def of(self, op: Submit) -> dict[str, int]:
        """Return the entries of a request."""
        columns = self._columns
        client = NONE if op.client is None else _place(self._clients, columns.clients, op.client)
        return {"client": client, "priority": op.priority, "prefix": self._prefix(op.prompt_token_ids)}

    def _prefix(self, token_ids: list[int]) -> int:
        if len(token_ids) < BEGINNING or self._columns.texts_unknown:
            return NONE
        payload = np.array(token_ids[:BEGINNING], dtype="<i8").tobytes()
        return _place(self._prefixes, self._columns.prefixes, blake2b(payload, digest_size=8).digest())


def _place(places: dict[T, int], values: list[T], value: T) -> int:
    """Return the index of a value; append it when it is new."""
    found = places.get(value)
    if found is None:
        found = places[value] = len(values)
        values.append(value)
    return found
