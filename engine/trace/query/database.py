"""A log as three tables of a private SQLite database: `steps`, `events`, `requests`. What is asked of it only reads.

`steps` and `events` are those of the export (`engine.trace.export.tables`), `events` with the hash of its block; a row
of `requests` is a sequence, as `engine.trace.figures` has it. The database lies on disk, without a name, for as long as
it is open.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, Self

from engine.trace.export.tables import EVENTS, STEPS, Column, Row, event_rows, step_rows
from engine.trace.figures import RunReading
from engine.trace.log import TraceReader
from engine.trace.observing import UNSAID

MOST_ROWS = 1000
MOST_SECONDS = 20.0
MOST_BYTES = 1 << 20  # of a text or blob that a question makes
MOST_ANSWER = 8 << 20  # bytes of texts in all rows
MOST_COLUMNS = 64
MOST_SQL = 20_000  # characters
PIECE = 5_000  # rows that are written at a time
BETWEEN = 10_000  # instructions of SQLite between two looks at the clock

REQUESTS: list[Column] = [
    ("request_id", str), ("seq_id", int), ("status", str), ("finish_reason", str), ("submitted_in", int),
    ("prompt_tokens", int), ("cached_tokens", int), ("output_tokens", int), ("computed_tokens", int),
    ("preemptions", int), ("blocks_peak", int), ("queue", float), ("ttft", float), ("tpot", float), ("seconds", float),
]  # fmt: skip
TYPES = {int: "INTEGER", bool: "INTEGER", float: "REAL", str: "TEXT"}
READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}


class QueryError(ValueError):
    """A question that cannot be answered; one sentence."""


class Answer(NamedTuple):
    """Rows of named columns. `is_cut`: there are more."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    is_cut: bool


class LogDatabase:
    """The tables of one log, read when it is made.

    Raises:
        QueryError: there is no room for the tables, or the log is of a watched server, which says none of it.
        TraceFormatError, TraceStateError: a damaged record.
    """

    def __init__(self, log: TraceReader) -> None:
        if log.header.observed is not None:
            raise QueryError(f"{UNSAID}, so there are no tables of them")
        self._connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        try:
            self._read(log)
        except BaseException as error:
            self._connection.close()
            if isinstance(error, sqlite3.Error):  # the disk is full
                raise QueryError(f"the tables cannot be written: {_sentence(error)}") from error
            raise

    def _read(self, log: TraceReader) -> None:
        self._connection.execute("PRAGMA journal_mode = OFF")
        self._connection.execute("PRAGMA synchronous = OFF")
        self._fill("steps", STEPS, step_rows(log))
        hashed = ", block_hash TEXT AS (json_extract(fields, '$.block_hash')) STORED"
        self._fill("events", EVENTS, event_rows(log), hashed)
        self._fill("requests", REQUESTS, _request_rows(log))
        for columns in ("type, reason", "block_hash, type, record", "seq_id, type"):
            self._connection.execute(f"CREATE INDEX by_{columns.split(',')[0]} ON events ({columns})")
        self._connection.execute("ANALYZE")
        self._connection.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_OK if action in READS else sqlite3.SQLITE_DENY
        )
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, MOST_COLUMNS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """The tables are gone."""
        self._connection.close()

    def ask(self, sql: str, most_rows: int = MOST_ROWS, seconds: float = MOST_SECONDS) -> Answer:
        """What one statement finds.

        Raises:
            QueryError: it is none, changes something, takes longer than `seconds`, or makes texts that are too long.
        """
        if len(sql) > MOST_SQL:
            raise QueryError(f"a question has at most {MOST_SQL:,} characters")
        end = time.monotonic() + seconds
        self._connection.set_progress_handler(lambda: time.monotonic() > end, BETWEEN)
        try:
            found = self._connection.execute(sql)
            rows, num_bytes = list[tuple[Any, ...]](), 0
            for row in islice(found, most_rows + 1):
                rows.append(row)
                num_bytes += sum(len(value) for value in row if isinstance(value, str | bytes))
                if num_bytes > MOST_ANSWER:
                    raise QueryError(
                        f"the answer is longer than {MOST_ANSWER >> 20} MiB; ask for fewer rows or columns"
                    )
        except (sqlite3.Error, sqlite3.Warning, OverflowError, MemoryError) as error:
            if time.monotonic() > end:
                raise QueryError(f"the answer took longer than {seconds:g} s") from error
            raise QueryError(_sentence(error)) from error
        finally:
            self._connection.set_progress_handler(None, 0)
        if found.description is None:
            raise QueryError("a question begins with SELECT or WITH")
        return Answer([column[0] for column in found.description], rows[:most_rows], len(rows) > most_rows)

    def _fill(self, name: str, columns: Sequence[Column], rows: Iterator[Row], more: str = "") -> None:
        typed = ", ".join(f'"{column}" {TYPES[kind]}' for column, kind in columns)
        self._connection.execute(f"CREATE TABLE {name} ({typed}{more})")
        names, values = ", ".join(f'"{column}"' for column, _ in columns), ", ".join("?" * len(columns))
        self._connection.execute("BEGIN")
        while piece := list(islice(rows, PIECE)):
            self._connection.executemany(f"INSERT INTO {name} ({names}) VALUES ({values})", piece)
        self._connection.execute("COMMIT")


def _request_rows(log: TraceReader) -> Iterator[Row]:
    reading = RunReading(log.header)
    for index in range(len(log)):
        reading.read(log.record(index), log.num_record_bytes(index))
    for (request_id, _), members in reading.members.items():
        for one in members:
            yield [
                request_id, one.seq_id, one.status, one.finish_reason, one.submitted_in, len(one.prompt_token_ids),
                one.num_cached_tokens, len(one.tokens), one.computed_tokens, one.num_preemptions, one.blocks_peak,
                one.queue, one.ttft, one.tpot, one.seconds,
            ]  # fmt: skip


def _sentence(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    if "authoriz" in text:
        return "a question only reads: SELECT or WITH, on steps, events and requests"
    return text[:300]
