"""SQL queries on the tables of a log (`tables.py`), by SQLite. Queries are read-only and have a time limit.

The database lies on disk, without a name, for as long as it is open.
"""

from __future__ import annotations

import sqlite3
import time
from itertools import islice
from typing import Any, NamedTuple, Self

from engine.trace.log import TraceReader
from engine.trace.query.tables import fill, names_of

MAX_ROWS = 1000
MAX_SECONDS = 20.0
MAX_BYTES = 1 << 20  # of a text or blob that a question makes
MAX_ANSWER = 8 << 20  # bytes of texts in all rows
MAX_COLUMNS = 64
MAX_SQL = 20_000  # characters
BETWEEN = 10_000  # instructions of SQLite between two looks at the clock

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
        QueryError: there is no room for the tables.
        TraceFormatError, TraceStateError: a damaged record.
    """

    def __init__(self, log: TraceReader) -> None:
        self._names = names_of(log.header)
        self._connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        try:
            _, problem = fill(self._connection, log)
            if problem is not None:
                raise problem
        except BaseException as error:
            self._connection.close()
            if isinstance(error, sqlite3.Error):  # the disk is full
                raise QueryError(f"the tables cannot be written: {sentence(error)}") from error
            raise
        restrict(self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """The tables are gone."""
        self._connection.close()

    def ask(self, sql: str, most_rows: int = MAX_ROWS, seconds: float = MAX_SECONDS) -> Answer:
        """Return the rows of one statement.

        Raises:
            QueryError: it is not a statement, writes, takes longer than `seconds`, or makes texts that are too long.
        """
        try:
            return answer(self._connection, sql, most_rows, seconds)
        except sqlite3.Error as error:
            raise QueryError(sentence(error, self._names)) from error


def restrict(connection: sqlite3.Connection) -> None:
    """From now on it only reads, within bounds."""
    connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in READS else sqlite3.SQLITE_DENY)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, MAX_COLUMNS)


def answer(connection: sqlite3.Connection, sql: str, most_rows: int, seconds: float) -> Answer:
    """Return the rows of one statement on a read-only database.

    Raises:
        sqlite3.Error: it is not a statement, or the database is damaged.
        QueryError: it takes longer than `seconds`, or makes texts that are too long.
    """
    if len(sql) > MAX_SQL:
        raise QueryError(f"a question has at most {MAX_SQL:,} characters")
    end = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > end, BETWEEN)
    try:
        found = connection.execute(sql)
        rows, num_bytes = list[tuple[Any, ...]](), 0
        for row in islice(found, most_rows + 1):
            rows.append(row)
            num_bytes += sum(len(value) for value in row if isinstance(value, str | bytes))
            if num_bytes > MAX_ANSWER:
                raise QueryError(f"the answer is longer than {MAX_ANSWER >> 20} MiB; ask for fewer rows or columns")
    except (sqlite3.Error, sqlite3.Warning, OverflowError, MemoryError) as error:
        if time.monotonic() > end:
            raise QueryError(f"the answer took longer than {seconds:g} s") from error
        if isinstance(error, sqlite3.Error):
            raise
        raise QueryError(sentence(error)) from error
    finally:
        connection.set_progress_handler(None, 0)
    if found.description is None:
        raise QueryError("a question begins with SELECT or WITH")
    return Answer([column[0] for column in found.description], rows[:most_rows], len(rows) > most_rows)


def sentence(error: BaseException, names: tuple[str, ...] = ("the tables", "nothing else")) -> str:
    """Return SQLite's message as one sentence; `names`: the tables that exist."""
    text = " ".join(str(error).split()) or type(error).__name__
    if "authoriz" in text:
        return f"a question only reads: SELECT or WITH, on {', '.join(names[:-1])} and {names[-1]}"
    return text[:300]
