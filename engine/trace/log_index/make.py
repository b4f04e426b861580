"""Program that builds a log index in one pass over a log, with the shared reducer.

    python -m engine.trace.log_index.make LOG TARGET               reports progress, one line of JSON each
    python -m engine.trace.log_index.make LOG TARGET --follow      follows a growing log until its standard input ends

It runs in its own process, so that it costs the server neither time nor memory.
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
from engine.trace.log_index.block_rows import CHANGE, Rows, changes, fresh_rows, put, touched
from engine.trace.log_index.content_rows import ContentRows
from engine.trace.log_index.log_index import LogIndex
from engine.trace.log_index.observed_ranks import ObservedRows
from engine.trace.log_index.sequence_rows import SequenceRows
from engine.trace.log_index.series import SeriesRows
from engine.trace.log_index.stored import LEVEL, Index, IndexWriter, Piece, Update, read_index
from engine.trace.log_index.tier_rows import TierRows
from engine.trace.state import TraceStateError, initial_state

PIECE_RECORDS = 256  # maximum in a piece of changes
PIECE_ROWS = 1 << 14  # maximum in a piece, unless one record has more
WHOLE_PIECES = 16  # maximum of pieces between two complete ones
NICE = 10  # niceness: interactive work has priority
FIRST = 0.2  # seconds until the first update, so that a waiting viewer sees something soon
UPDATE_SECONDS = 2.0  # minimum seconds between further updates
NEXT = 0.5  # seconds between checks whether the log has grown


class _Rows:
    """Writer of the rows file; records where its pieces are."""

    def __init__(self, file: IO[bytes], num_blocks: int) -> None:
        self._file, self._offset = file, 0
        self._blocks = fresh_rows(num_blocks)
        self._pending: list[tuple[int, ...]] = []
        self._first = 0  # the record after the last piece
        self._since_whole = [0, 0]  # pieces and rows since the last complete piece
        self._changes: list[Piece] = []  # not taken yet
        self._wholes: list[Piece] = []

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
        put(self._blocks, rows)
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


def _made_meanwhile(target: Path, log: TraceReader) -> Index | None:
    """Return a log index of the complete log that another program has written meanwhile, or None."""
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
    """Index a log into `target` (NAME.survey) and NAME.rows beside it. `on_progress` gets the number of records done.

    `wait` is called at the end of the log; it blocks for a while and returns whether the log may still grow.

    At a damaged or contradicting record the log index ends, with the reason in `problem`.

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
        fcntl.flock(file, fcntl.LOCK_EX)  # another program may be writing the same log index
        if (found := _made_meanwhile(target, log)) is not None:
            return found
        log_index = IndexWriter(target)
        file.truncate(0)
        rows = _Rows(file, len(state.blocks))

        def update(count: int, is_done: bool) -> None:
            rows.close_piece(count)
            file.flush()
            pieces, wholes = rows.take()
            of_sequences, spans, classes = sequences.take()
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
                    sequences=of_sequences,
                    spans=spans,
                    classes=classes,
                    contents=msgspec.Raw(msgspec.msgpack.encode(contents.growing.take())),
                    heard=msgspec.Raw(msgspec.msgpack.encode(observed.take())),
                )
            )
            on_progress(count)

        count, pause = 0, FIRST
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
                changed = tiers.add(record, state, touched(record, state))
                rows.add(count, changes(count, changed, state, sequences.rows, contents.rows))
                count += 1
                is_written = False
            else:
                log.read_on()
            if not is_written and time.monotonic() - written_at >= pause:
                update(count, False)
                is_written, written_at, pause = True, time.monotonic(), UPDATE_SECONDS
        if not count:
            raise ValueError(problem)
        update(count, True)
        return read_index(target)


def main() -> None:
    """Index one log."""
    parser = argparse.ArgumentParser(description="Index a log that is too long to load completely.")
    parser.add_argument("log", type=Path)
    parser.add_argument("target", type=Path, help="index file to write, with the rows file beside it")
    parser.add_argument("--follow", action="store_true", help="follow a growing log until standard input ends")
    given = parser.parse_args()
    gc.disable()  # there are no reference cycles, and a collection would visit 100,000 blocks for nothing
    if hasattr(os, "nice"):
        os.nice(NICE)

    def say(count: int) -> None:
        print(json.dumps({"num_records": count}), flush=True)

    def wait() -> bool:
        return given.follow and not select.select([sys.stdin], [], [], NEXT)[0]

    try:
        with TraceReader(given.log, verify=False) as log:
            make(log, given.target, say, wait)
    except (OSError, ValueError) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
