"""Contents of blocks as table rows, by hash, with their parents."""

from __future__ import annotations

from msgspec import Struct

from engine.trace.log_index.columns import Growing
from engine.trace.operations import Cache, Stored
from engine.trace.records import StepRecord
from engine.trace.state import Sequence, State

BEGINS, UNKNOWN = -1, -2  # values of `parent`: begins a sequence; not in the log
MOST = 1 << 20  # contents; further ones are only counted
FEW = 6  # token ids stored of a content
TEXT = 48  # bytes of its text
CHANGING = ("parent", "num_tokens", "token_ids")


class ContentColumns(Struct, kw_only=True, array_like=True):
    """Columns with one entry per content, in order of first occurrence."""

    parent: list[int] = []  # row of the preceding content; BEGINS, or UNKNOWN
    num_tokens: list[int] = []
    first_in: list[int] = []  # record
    token_ids: list[list[int]] = []  # the first FEW
    text: list[bytes] = []  # the first TEXT bytes; empty: unknown


class ContentRows:
    """The columns, filled record by record."""

    def __init__(self) -> None:
        self.columns = ContentColumns()
        self.growing = Growing(self.columns, CHANGING)
        self.rows: dict[bytes, int] = {}  # by hash
        self._followed: set[int] = set()
        self._waiting: dict[bytes, list[int]] = {}  # by hash named as a parent but not stored yet: its children

    def add(self, record: StepRecord, state: State) -> None:
        """Read the next record; `state` is the one after it."""
        for op in record.ops:
            if type(op) is Cache:
                if op.block_hash not in self.rows:
                    text = _text(state.sequences.get(op.seq_id), op.logical * state.block_size, len(op.token_ids))
                    self._add(op.block_hash, record.index, op.token_ids, text)
                    self._follow(op.block_hash, op.parent_hash)
            elif type(op) is Stored:
                self._see(op, record.index)

    def _see(self, op: Stored, index: int) -> None:
        """Complete a content: a monitored server may report its tokens and parent later."""
        row = self.rows.get(op.block_hash)
        if row is None:
            self._add(op.block_hash, index, op.token_ids, b"")
            row = self.rows.get(op.block_hash)
        elif op.token_ids and not self.columns.num_tokens[row]:
            self.columns.num_tokens[row] = len(op.token_ids)
            self.columns.token_ids[row] = op.token_ids[:FEW]
            self.growing.change(row)
        if row is not None and self.columns.parent[row] == UNKNOWN and not op.parent_unsaid:
            self._follow(op.block_hash, op.parent_hash)

    def _add(self, block_hash: bytes, index: int, token_ids: list[int], text: bytes) -> None:
        columns = self.columns
        row = len(columns.parent)
        if row >= MOST:
            return
        self.rows[block_hash] = row
        columns.parent.append(UNKNOWN)
        columns.num_tokens.append(len(token_ids))
        columns.first_in.append(index)
        columns.token_ids.append(token_ids[:FEW])
        columns.text.append(text)
        for child in self._waiting.pop(block_hash, ()):
            columns.parent[child] = row
            self.growing.change(child)
            self._followed.add(row)

    def _follow(self, block_hash: bytes, parent_hash: bytes | None) -> None:
        row = self.rows.get(block_hash)
        if row is None:
            return
        parent = BEGINS if parent_hash is None else self.rows.get(parent_hash)
        if parent is None:
            assert parent_hash is not None
            self._waiting.setdefault(parent_hash, []).append(row)
        elif row != parent and (row not in self._followed or not self._comes_before(row, parent)):
            self.columns.parent[row] = parent
            self.growing.change(row)
            self._followed.add(parent)

    def _comes_before(self, row: int, other: int) -> bool:
        """Return whether a content precedes another or equals it; guards against cycles of damaged hashes."""
        while other >= 0 and other != row:
            other = self.columns.parent[other]
        return other == row


def _text(sequence: Sequence | None, start: int, count: int) -> bytes:
    """Return the text of `count` tokens from a position on; empty without a sequence and for a redacted log."""
    if sequence is None:
        return b""
    return b"".join(sequence.token_bytes[start : start + count])[:TEXT]
