"""SQL queries on the tables of a log (`tables.py`) with SQLite. Queries are read-only and have a time limit."""

from __future__ import annotations

import sqlite3
import time
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self

from engine.trace.log import TraceReader
from engine.trace.messages.words import content_of, filled, flat, in_language, languages
from engine.trace.query.tables import fill, names_of

MAX_ROWS = 1000
MAX_SECONDS = 20.0
MAX_BYTES = 1 << 20  # bytes of a text or blob in a query
MAX_ANSWER = 8 << 20  # bytes of texts in all rows of a result
MAX_COLUMNS = 64
MAX_SQL = 20_000  # characters
CHECK_INTERVAL = 10_000  # SQLite instructions between checks of the time limit

READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}


class QueryError(ValueError):
    """The query cannot be executed. The message is one sentence. `translations` are by language code."""

    def __init__(self, key: str, **values: object) -> None:
        """Create the error from text `key` of `words.*.json`. A value that is a tuple is a list of names."""
        texts = {code: _message(code, key, values) for code in languages()}
        super().__init__(texts.pop("en"))
        self.translations = texts


class Answer(NamedTuple):
    """Rows of named columns. `is_cut`: further rows are omitted."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    is_cut: bool


class LogDatabase:
    """Tables of one log in an unnamed temporary file, filled by the constructor.

    Raises:
        QueryError: the disk is full.
        TraceFormatError, TraceStateError: a record is damaged or contradicts the log before it.
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
                raise QueryError("unwritten", text=one_line(error)) from error
            raise
        restrict(self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close and delete the database."""
        self._connection.close()

    def ask(self, sql: str, max_rows: int = MAX_ROWS, seconds: float = MAX_SECONDS) -> Answer:
        """Return the rows of one statement.

        Raises:
            QueryError: the text is not one valid statement, it writes, takes longer than `seconds`, or returns too much
                text.
        """
        try:
            return answer(self._connection, sql, max_rows, seconds)
        except sqlite3.Error as error:
            raise database_error(error, self._names) from error


def restrict(connection: sqlite3.Connection) -> None:
    """Make the connection read-only, and set its resource limits."""
    connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in READS else sqlite3.SQLITE_DENY)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, MAX_COLUMNS)


def answer(connection: sqlite3.Connection, sql: str, max_rows: int, seconds: float) -> Answer:
    """Return the rows of one statement on a read-only database.

    Raises:
        sqlite3.Error: the statement is invalid, or the database is damaged.
        QueryError: the statement takes longer than `seconds`, or returns too much text.
    """
    if len(sql) > MAX_SQL:
        raise QueryError("too_long", most=f"{MAX_SQL:,}")
    end = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > end, CHECK_INTERVAL)
    try:
        cursor = connection.execute(sql)
        rows, num_bytes = list[tuple[Any, ...]](), 0
        for row in islice(cursor, max_rows + 1):
            rows.append(row)
            num_bytes += sum(len(value) for value in row if isinstance(value, str | bytes))
            if num_bytes > MAX_ANSWER:
                raise QueryError("answer_too_long", most=MAX_ANSWER >> 20)
    except (sqlite3.Error, sqlite3.Warning, OverflowError, MemoryError) as error:
        if time.monotonic() > end:
            raise QueryError("timeout", seconds=f"{seconds:g}") from error
        if isinstance(error, sqlite3.Error):
            raise
        raise QueryError("database", text=one_line(error)) from error
    finally:
        connection.set_progress_handler(None, 0)
    if cursor.description is None:
        raise QueryError("no_rows")
    return Answer([column[0] for column in cursor.description], rows[:max_rows], len(rows) > max_rows)


def database_error(error: sqlite3.Error, names: tuple[str, ...]) -> QueryError:
    """Convert an error of SQLite. `names`: the existing tables."""
    text = one_line(error)
    if "authoriz" in text:
        return QueryError("read_only", tables=names)
    kind, _, name = text.partition(": ")
    if kind in ("no such table", "no such column"):
        return QueryError(kind.replace(" ", "_"), name=name[:200], tables=names, table=names[0])
    return QueryError("database", text=text)


def one_line(error: BaseException) -> str:
    """Return an error's message as one line."""
    return (" ".join(str(error).split()) or type(error).__name__)[:300]


def _message(language: str, key: str, values: dict[str, object]) -> str:
    texts = in_language(language, lambda code: flat(content_of(Path(__file__).with_name(f"words.{code}.json"))))
    lists = {name: _list_text(value, texts) for name, value in values.items() if isinstance(value, tuple)}
    return filled(texts[key], {**values, **lists}, language)


def _list_text(names: tuple[str, ...], texts: dict[str, str]) -> str:
    return texts["and.list"].join(names[:-1]) + texts["and.last"] + names[-1]
