"""Table rows of block contents, by hash, with their parents."""

from __future__ import annotations

from msgspec import Struct

from engine.trace.log_index.columns import Growing
from engine.trace.operations import Cache, Stored
from engine.trace.records import StepRecord
from engine.trace.state import Sequence, State

BEGINS, UNKNOWN = -1, -2  # values of `parent`: the content begins a sequence; its parent is not in the log
MAX_CONTENTS = 1 << 20  # further contents are only counted
MAX_TOKEN_IDS = 6  # stored token ids of a content
MAX_TEXT_BYTES = 48  # stored bytes of its text
CHANGING = ("parent", "num_tokens", "token_ids")


class ContentColumns(Struct, kw_only=True, array_like=True):
    """Columns with one entry per content, in order of first occurrence."""

    parent: list[int] = []  # row of the preceding content; BEGINS, or UNKNOWN
    num_tokens: list[int] = []
    first_in: list[int] = []  # record index
    token_ids: list[list[int]] = []  # the first MAX_TOKEN_IDS
    text: list[bytes] = []  # the first MAX_TEXT_BYTES bytes; empty: unknown


class ContentRows:
    """Builder of the columns, record by record."""

    def __init__(self) -> None:
        self.columns = ContentColumns()
        self.growing = Growing(self.columns, CHANGING)
        self.rows: dict[bytes, int] = {}  # hash -> row
        self._parents: set[int] = set()  # rows with children
        self._orphans: dict[bytes, list[int]] = {}  # hash of a parent that is not stored yet -> rows of its children

    def add(self, record: StepRecord, state: State) -> None:
        """Read the next record. `state`: state after it."""
        for op in record.ops:
            if type(op) is Cache:
                if op.block_hash not in self.rows:
                    text = _text(state.sequences.get(op.seq_id), op.logical * state.block_size, len(op.token_ids))
                    self._add(op.block_hash, record.index, op.token_ids, text)
                    self._set_parent(op.block_hash, op.parent_hash)
            elif type(op) is Stored:
                self._add_reported(op, record.index)

    def _add_reported(self, op: Stored, index: int) -> None:
        """Add or complete a content. A monitored server may report its tokens and parent later than its hash."""
        row = self.rows.get(op.block_hash)
        if row is None:
            self._add(op.block_hash, index, op.token_ids, b"")
            row = self.rows.get(op.block_hash)
        elif op.token_ids and not self.columns.num_tokens[row]:
            self.columns.num_tokens[row] = len(op.token_ids)
            self.columns.token_ids[row] = op.token_ids[:MAX_TOKEN_IDS]
            self.growing.change(row)
        if row is not None and self.columns.parent[row] == UNKNOWN and not op.parent_unsaid:
            self._set_parent(op.block_hash, op.parent_hash)

    def _add(self, block_hash: bytes, index: int, token_ids: list[int], text: bytes) -> None:
        columns = self.columns
        row = len(columns.parent)
        if row >= MAX_CONTENTS:
            return
        self.rows[block_hash] = row
        columns.parent.append(UNKNOWN)
        columns.num_tokens.append(len(token_ids))
        columns.first_in.append(index)
        columns.token_ids.append(token_ids[:MAX_TOKEN_IDS])
        columns.text.append(text)
        for child in self._orphans.pop(block_hash, ()):
            columns.parent[child] = row
            self.growing.change(child)
            self._parents.add(row)

    def _set_parent(self, block_hash: bytes, parent_hash: bytes | None) -> None:
        row = self.rows.get(block_hash)
        if row is None:
            return
        parent = BEGINS if parent_hash is None else self.rows.get(parent_hash)
        if parent is None:
            assert parent_hash is not None
            self._orphans.setdefault(parent_hash, []).append(row)
        elif row != parent and (row not in self._parents or not self._is_ancestor(row, parent)):
            self.columns.parent[row] = parent
            self.growing.change(row)
            self._parents.add(parent)

    def _is_ancestor(self, row: int, other: int) -> bool:
        """Return whether a content is an ancestor of another or equals it, to prevent cycles from damaged hashes."""
        while other >= 0 and other != row:
            other = self.columns.parent[other]
        return other == row


def _text(sequence: Sequence | None, start: int, count: int) -> bytes:
    """Return the text of `count` tokens from a position on. It is empty without a sequence and for a redacted log."""
    if sequence is None:
        return b""
    return b"".join(sequence.token_bytes[start : start + count])[:MAX_TEXT_BYTES]
