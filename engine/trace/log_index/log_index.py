"""Reader of a log index: numbers of every record, and the blocks after any record."""

from __future__ import annotations

import os
import zlib
from bisect import bisect_right
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np

from engine.trace.codec import prepare
from engine.trace.derived_file import DerivedFileError, Stamp
from engine.trace.log import TraceReader
from engine.trace.log_index.block_rows import BLOCK, CHANGE, Rows, apply_changes, initial_rows
from engine.trace.log_index.columns import Patch, apply_patch
from engine.trace.log_index.content_rows import ContentColumns
from engine.trace.log_index.observed_cache import ObservedCache
from engine.trace.log_index.observed_ranks import ObservedColumns, concatenate
from engine.trace.log_index.series import RECORD, Numbers
from engine.trace.log_index.stored import Index, Piece, read_index


class LogIndex:
    """Log index of a log. Any number of threads may read it. No file remains open between reads.

    Raises:
        DerivedFileError: the index is missing, damaged, or of another log.
    """

    def __init__(self, path: Path, log: TraceReader, known: LogIndex | None = None) -> None:
        """Read the index of `log`. `known`: an earlier result; only the updates after it are read."""
        self.index: Index = read_index(path, known.index if known else None)
        count = self.index.num_records
        if not self.is_of(log):
            raise DerivedFileError("the log index is of another log")
        if len(self.index.series) != count * RECORD.itemsize:
            raise DerivedFileError("the log index is damaged: it does not have a row for each record")
        self.series: Numbers = np.frombuffer(self.index.series, RECORD)
        self._rows = path.with_suffix(".rows")

    def __len__(self) -> int:
        """Return the number of indexed records."""
        return self.index.num_records

    def is_of(self, log: TraceReader) -> bool:
        """Return whether this is an index of `log`."""
        count = self.index.num_records
        return 0 < count <= len(log) and self.index.stamp == Stamp.of(log, count)

    @cached_property
    def contents(self) -> ContentColumns:
        """Contents of the log, decoded on first use.

        Raises:
            DerivedFileError: they are damaged.
        """
        prepare(Patch[ContentColumns])
        found = ContentColumns()
        try:
            for patch in self.index.contents:
                apply_patch(found, msgspec.msgpack.decode(patch, type=Patch[ContentColumns]))
        except (msgspec.MsgspecError, IndexError) as error:
            raise DerivedFileError(f"the log index is damaged: {error}") from error
        return found

    @cached_property
    def observed_cache(self) -> ObservedCache:
        """Reports of a monitored server, decoded on first use.

        Raises:
            DerivedFileError: they are damaged.
        """
        try:
            return ObservedCache(
                concatenate([msgspec.msgpack.decode(one, type=ObservedColumns) for one in self.index.heard])
            )
        except (msgspec.MsgspecError, KeyError, ValueError) as error:
            raise DerivedFileError(f"the log index is damaged: {error}") from error

    def blocks_at(self, record: int) -> Rows:
        """Return the rows of all blocks (BLOCK, by id) after record `record` (-1: before the first).

        Raises:
            IndexError: the record is not indexed.
            DerivedFileError: the rows are damaged.
        """
        if not -1 <= record < len(self):
            raise IndexError(f"record {record} of {len(self)}")
        complete = self.index.wholes
        end = bisect_right(complete, record + 1, key=lambda piece: piece.first)
        rows = self._read(complete[end - 1], BLOCK) if end else initial_rows(self.index.num_blocks)
        changes = self._changes(complete[end - 1].first if end else 0, record + 1)
        if len(changes):
            apply_changes(rows, changes)
        return rows

    def changes(self, first: int, end: int) -> Rows:
        """Return the block changes of records [first, end), in the order of the log (CHANGE).

        Raises:
            IndexError: a record is not indexed.
            DerivedFileError: the rows are damaged.
        """
        if not 0 <= first <= end <= len(self):
            raise IndexError(f"records [{first}, {end}) of {len(self)}")
        return self._changes(first, end)

    def _changes(self, first: int, end: int) -> Rows:
        pieces = self.index.changes
        at = max(0, bisect_right(pieces, first, key=lambda piece: piece.first) - 1)
        found: list[Rows] = []
        while at < len(pieces) and pieces[at].first < end:
            rows = self._read(pieces[at], CHANGE)
            low, high = np.searchsorted(rows["record"], [first, end])
            found.append(rows[low:high])
            at += 1
        return np.concatenate(found) if found else np.empty(0, CHANGE)

    def _read(self, piece: Piece, kind: np.dtype[np.void]) -> Rows:
        try:
            with self._rows.open("rb") as file:
                payload = os.pread(file.fileno(), piece.length, piece.offset)
        except OSError as error:
            raise DerivedFileError(f"the rows of the log index cannot be read: {error.strerror or error}") from error
        if len(payload) != piece.length or zlib.crc32(payload) != piece.checksum:
            raise DerivedFileError("the rows of the log index are damaged")
        raw = zlib.decompress(payload)
        rows: Rows = np.empty(len(raw) // kind.itemsize, kind)
        offset = 0
        for name in kind.names or ():
            column = np.frombuffer(raw, kind[name], len(rows), offset)
            rows[name] = column
            offset += column.nbytes
        return rows
