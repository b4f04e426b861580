"""Cache of a long log's tables, which are built once and queried by any number of programs at the same time.

NAME.sqlite   the tables, an SQLite database
NAME.tables   an `Index` (`engine.trace.derived_file`)
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from engine.trace.derived_file import DerivedFileError, Stamp, read_derived, write_derived
from engine.trace.log import TraceReader
from engine.trace.query.database import MAX_ROWS, MAX_SECONDS, Answer, answer, database_error, one_line, restrict
from engine.trace.query.tables import fill, names_of

MAGIC = b"KVTABL\x00\x02"
SUFFIX, DATA = ".tables", ".sqlite"
MIN_CACHED_BYTES = 64 << 20  # the tables of smaller logs are not cached
MAX_BYTES = 8 << 30  # bytes of the tables
PAGE = 4096  # bytes of an SQLite page
DAMAGED = ("malformed", "not a database", "disk I/O")  # in SQLite's messages for a damaged file


class Index(Struct, frozen=True, kw_only=True):
    """Content of NAME.tables."""

    stamp: Stamp
    num_records: int  # number of records in the tables
    problem: str = ""  # reason why further records are missing
    seconds: float  # build time
    num_bytes: int
    checksum: int  # CRC-32 of NAME.sqlite


class CachedTables:
    """Cached tables of a log. Any number of threads may query them. No file remains open between queries.

    Raises:
        DerivedFileError: the tables are missing, damaged, or of another log.
    """

    def __init__(self, path: Path, log: TraceReader) -> None:
        self.index = read_derived(path, MAGIC, Index, "tables")
        self.opened = time.monotonic()
        self._data, self._names = path.with_suffix(DATA), names_of(log.header)
        if not self.is_of(log):
            raise DerivedFileError("the tables are of another log")
        if _checksum(self._data) != (self.index.num_bytes, self.index.checksum):
            raise DerivedFileError("the tables are damaged")

    def is_of(self, log: TraceReader) -> bool:
        """Return whether the tables are those of `log`."""
        count = self.index.num_records
        return count <= len(log) and self.index.stamp == Stamp.of(log, count)

    def ask(self, sql: str, max_rows: int = MAX_ROWS, seconds: float = MAX_SECONDS) -> Answer:
        """Return the rows of one statement.

        Raises:
            QueryError: see `LogDatabase.ask`.
            DerivedFileError: the tables are damaged or missing.
        """
        try:
            connection = _connect(self._data)
        except sqlite3.Error as error:
            raise DerivedFileError(f"the tables cannot be read: {one_line(error)}") from error
        try:
            restrict(connection)
            return answer(connection, sql, max_rows, seconds)
        except sqlite3.Error as error:
            message = one_line(error)
            if any(word in message for word in DAMAGED):
                raise DerivedFileError(f"the tables are damaged: {message}") from error
            raise database_error(error, self._names) from error
        finally:
            connection.close()


def make(log: TraceReader, target: Path, on_progress: Callable[[int], None] = lambda count: None) -> Index:
    """Write the tables of a log to `target` (NAME.tables) and NAME.sqlite in its folder. `on_progress`: see `fill`.

    Raises:
        OSError: the disk is full, or the tables exceed MAX_BYTES.
    """
    data = target.with_suffix(DATA)
    target.parent.mkdir(parents=True, exist_ok=True)
    with data.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # another program may be writing the same tables
        if (found := _existing_index(target, log)) is not None:
            return found
        new = data.with_name(data.name + ".new")
        new.unlink(missing_ok=True)
        began, count = time.monotonic(), len(log)
        try:
            connection = sqlite3.connect(new, isolation_level=None)
            try:
                connection.execute(f"PRAGMA max_page_count = {MAX_BYTES // PAGE}")
                count, problem = fill(connection, log, on_progress)
            finally:
                connection.close()
            num_bytes, checksum = _checksum(new)
            target.unlink(missing_ok=True)
            os.replace(new, data)
        except sqlite3.Error as error:
            raise OSError(f"the tables cannot be written, or exceed {MAX_BYTES >> 30} GiB: {error}") from error
        finally:
            new.unlink(missing_ok=True)
        index = Index(
            stamp=Stamp.of(log, count),
            num_records=count,
            problem="" if problem is None else str(problem),
            seconds=time.monotonic() - began,
            num_bytes=num_bytes,
            checksum=checksum,
        )
        write_derived(target, MAGIC, index)
        return index


def _existing_index(target: Path, log: TraceReader) -> Index | None:
    """Return the index of the complete log, if another program has just written it, or None."""
    try:
        found = CachedTables(target, log).index
    except DerivedFileError:
        return None
    return found if found.problem or found.num_records == len(log) else None


def _connect(path: Path) -> sqlite3.Connection:
    address = f"file:{quote(str(path))}?mode=ro&immutable=1"
    return sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)


def _checksum(path: Path) -> tuple[int, int]:
    """Return a file's length and CRC-32. Raises DerivedFileError if it cannot be read."""
    length = checksum = 0
    try:
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                checksum, length = zlib.crc32(piece, checksum), length + len(piece)
    except OSError as error:
        raise DerivedFileError(f"the tables cannot be read: {error.strerror or error}") from error
    return length, checksum
