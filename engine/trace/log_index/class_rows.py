"""Columns for the classes of requests: client, priority and prompt prefix."""

from __future__ import annotations

from hashlib import blake2b
from typing import TypeVar

import numpy as np
from msgspec import Struct

from engine.trace.operations import Submit

T = TypeVar("T", str, bytes)
NONE = -1
PREFIX_TOKENS = 16  # leading tokens that prompts of one class share; vLLM's default block size


class ClassColumns(Struct, kw_only=True, array_like=True):
    """Columns with one entry per sequence, in the order of `SequenceColumns`. NONE: absent, or not in the log."""

    client: list[int] = []  # index in `clients`
    priority: list[int] = []
    prefix: list[int] = []  # index in `prefixes`; NONE if the prompt has fewer than PREFIX_TOKENS tokens
    parent: list[int] = []  # row of the sequence from which it was forked
    before: list[int] = []  # row of the request's previous part, on another instance
    last_token_in: list[int] = []  # record index
    num_preemptions: list[int] = []  # without those of a fork's parent
    clients: list[str] = []
    prefixes: list[bytes] = []  # digests of the first PREFIX_TOKENS tokens
    texts_unknown: bool = False  # token ids are redacted, so prompts cannot be distinguished


class Classes:
    """Computes `client`, `priority` and `prefix` of requests, and appends new values to `clients` and `prefixes`."""

    def __init__(self, columns: ClassColumns) -> None:
        self._columns = columns
        self._clients: dict[str, int] = {}
        self._prefixes: dict[bytes, int] = {}

    def of(self, op: Submit) -> dict[str, int]:
        """Return the entries of a request, by column name."""
        columns = self._columns
        client = NONE if op.client is None else _index_of(self._clients, columns.clients, op.client)
        return {"client": client, "priority": op.priority, "prefix": self._prefix(op.prompt_token_ids)}

    def _prefix(self, token_ids: list[int]) -> int:
        if len(token_ids) < PREFIX_TOKENS or self._columns.texts_unknown:
            return NONE
        payload = np.array(token_ids[:PREFIX_TOKENS], dtype="<i8").tobytes()
        return _index_of(self._prefixes, self._columns.prefixes, blake2b(payload, digest_size=8).digest())


def _index_of(indices: dict[T, int], values: list[T], value: T) -> int:
    """Return the index of a value in `values`. Appends a new value."""
    found = indices.get(value)
    if found is None:
        found = indices[value] = len(values)
        values.append(value)
    return found
