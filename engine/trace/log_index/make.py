"""Program that builds a log index in one pass over a log.

    python -m engine.trace.log_index.make LOG TARGET               prints its progress as lines of JSON
    python -m engine.trace.log_index.make LOG TARGET --follow      follows a growing log until its standard input ends

It runs in its own process, so that it does not use time and memory of the server.
"""

from __future__ import annotations

import argparse
import fcntl
import gc
import json
import os
import select
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

import msgspec
import numpy as np

from engine.trace.apply import apply
from engine.trace.codec import TraceFormatError
from engine.trace.derived_file import DerivedFileError, Stamp
from engine.trace.limits import Budget
from engine.trace.log import TraceReader
from engine.trace.log_index.block_rows import CHANGE, Rows, apply_changes, change_rows, initial_rows, touched_blocks
from engine.trace.log_index.content_rows import ContentRows
from engine.trace.log_index.log_index import LogIndex
from engine.trace.log_index.observed_ranks import ObservedRows
from engine.trace.log_index.sequence_rows import SequenceRows
from engine.trace.log_index.series import SeriesRows
from engine.trace.log_index.stored import LEVEL, Index, IndexWriter, Piece, Update, read_index
from engine.trace.log_index.tier_rows import TierRows
from engine.trace.state import TraceStateError, initial_state

PIECE_RECORDS = 256  # maximum records of a piece of changes
PIECE_ROWS = 1 << 14  # maximum rows of a piece, unless one record has more
WHOLE_PIECES = 16  # maximum pieces of changes between two complete pieces
NICE = 10  # niceness: interactive work has priority
FIRST_SECONDS = 0.2  # seconds until the first update, for which a viewer may wait
UPDATE_SECONDS = 2.0  # minimum seconds between further updates
POLL_SECONDS = 0.5  # seconds between checks whether the log has grown


class _RowsWriter:
    """Writer of the rows file, which tracks the positions of its pieces."""

    def __init__(self, file: IO[bytes], num_blocks: int) -> None:
        self._file, self._offset = file, 0
        self._blocks = initial_rows(num_blocks)
        self._pending: list[tuple[int, ...]] = []
        self._first = 0  # index of the record after the last piece
        self._since_whole = [0, 0]  # pieces and rows since the last complete piece
        self._changes: list[Piece] = []  # since the last `take`
        self._wholes: list[Piece] = []  # since the last `take`

    def add(self, index: int, rows: list[tuple[int, ...]]) -> None:
        """Add the changes of record `index`."""
        self._pending += rows
        if index + 1 - self._first >= PIECE_RECORDS or len(self._pending) >= PIECE_ROWS:
            self.close_piece(index + 1)

    def close_piece(self, end: int) -> None:
        """Close the current piece at record `end` (exclusive)."""
        if end == self._first:
            return
        rows: Rows = np.array(self._pending, dtype=CHANGE)
        self._changes.append(self._write(rows, self._first, end - self._first))
        apply_changes(self._blocks, rows)
        self._pending, self._first = [], end
        pieces, count = self._since_whole
        self._since_whole = [pieces + 1, count + len(rows)]
        if pieces + 1 >= WHOLE_PIECES or count + len(rows) >= len(self._blocks):
            self._wholes.append(self._write(self._blocks, end, 0))
            self._since_whole = [0, 0]

    def take(self) -> tuple[list[Piece], list[Piece]]:
        """Return the pieces of changes and the complete pieces since the last call."""
        found = self._changes, self._wholes
        self._changes, self._wholes = [], []
        return found

    def _write(self, rows: Rows, first: int, count: int) -> Piece:
        payload = zlib.compress(_by_column(rows), LEVEL)
        self._file.write(payload)
        piece = Piece(first, count, self._offset, len(payload), zlib.crc32(payload))
        self._offset += len(payload)
        return piece


def _by_column(rows: Rows) -> bytes:
    """Return the rows column by column, which compresses better."""
    return b"".join(np.ascontiguousarray(rows[name]).tobytes() for name in rows.dtype.names or ())


def _existing_index(target: Path, log: TraceReader) -> Index | None:
    """Return the index of the complete log, if another program has just written it, or None."""
    try:
        log_index = LogIndex(target, log)
        if log_index.index.num_records != len(log) or not log_index.index.is_done:
            return None
        log_index.blocks_at(len(log_index) - 1)
    except DerivedFileError:
        return None
    return log_index.index


def make(
    log: TraceReader,
    target: Path,
    on_progress: Callable[[int], None] = lambda count: None,
    wait: Callable[[], bool] = lambda: False,
) -> Index:
    """Index a log into `target` (NAME.survey) and NAME.rows in the same folder.

    If a record is damaged or contradicts the state, the index ends before it, with the reason in `problem`.

    Args:
        on_progress: called with the number of indexed records.
        wait: called at the end of the log; waits for a while and returns whether the log may still grow.

    Raises:
        OSError: the files cannot be written.
        TraceStateError: the header describes invalid pools.
        ValueError: the log has no record.
    """
    if not len(log):
        raise ValueError("the log has no record")
    state, budget, is_written = initial_state(log.header), Budget(), True
    sequences, contents = SequenceRows(log.header), ContentRows()
    observed = ObservedRows(max(1, len(log.header.instances)))
    problem, written_at = "", time.monotonic()
    series, tiers = SeriesRows(log.header), TierRows()
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_suffix(".rows").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # another program may be writing the same index
        if (found := _existing_index(target, log)) is not None:
            return found
        log_index = IndexWriter(target)
        file.truncate(0)
        rows = _RowsWriter(file, len(state.blocks))

        def update(count: int, is_done: bool) -> None:
            rows.close_piece(count)
            file.flush()
            pieces, wholes = rows.take()
            sequence_patch, spans, classes = sequences.take()
            log_index.append(
                Update(
                    stamp=Stamp.of(log, count),
                    num_records=count,
                    is_done=is_done,
                    problem=problem,
                    num_blocks=len(state.blocks),
                    changes=pieces,
                    wholes=wholes,
                    series=series.take(),
                    said=series.field_names,
                    media=tiers.media,
                    sequences=sequence_patch,
                    spans=spans,
                    classes=classes,
                    contents=msgspec.Raw(msgspec.msgpack.encode(contents.growing.take())),
                    heard=msgspec.Raw(msgspec.msgpack.encode(observed.take())),
                )
            )
            on_progress(count)

        count, interval = 0, FIRST_SECONDS
        while count < len(log) or wait():
            if count < len(log):
                try:
                    record = log.record(count)
                    budget.read(log.num_record_bytes(count))
                    apply(state, record, budget)
                except (TraceFormatError, TraceStateError) as error:
                    problem = str(error)
                    break
                sequences.add(record)
                series.add(record, state)
                contents.add(record, state)
                observed.add(record, contents.rows)
                changed = tiers.add(record, state, touched_blocks(record, state))
                rows.add(count, change_rows(count, changed, state, sequences.rows, contents.rows))
                count += 1
                is_written = False
            else:
                log.read_on()
            if not is_written and time.monotonic() - written_at >= interval:
                update(count, False)
                is_written, written_at, interval = True, time.monotonic(), UPDATE_SECONDS
        if not count:
            raise ValueError(problem)
        update(count, True)
        return read_index(target)


def main() -> None:
    """Index one log."""
    parser = argparse.ArgumentParser(description="Index a log that is too long to load completely.")
    parser.add_argument("log", type=Path)
    parser.add_argument("target", type=Path, help="index file to write; the rows file is written to the same folder")
    parser.add_argument("--follow", action="store_true", help="follow a growing log until standard input ends")
    arguments = parser.parse_args()
    gc.disable()  # there are no reference cycles, and a collection would visit 100,000 blocks
    if hasattr(os, "nice"):
        os.nice(NICE)

    def report(count: int) -> None:
        print(json.dumps({"num_records": count}), flush=True)

    def wait() -> bool:
        return arguments.follow and not select.select([sys.stdin], [], [], POLL_SECONDS)[0]

    try:
        with TraceReader(arguments.log, verify=False) as log:
            make(log, arguments.target, report, wait)
    except (OSError, ValueError) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
