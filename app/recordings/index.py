"""Index of the library: a SQLite database with one row per recording.

Name, tags, notes and the cause of the recording's end are stored only here. Other fields can be read from the file
again.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
from msgspec import Struct

from app.session.answers import Ended
from app.session.summary import Summary

LOCK_SECONDS = 2.0  # timeout for another program's lock

_TABLE = """
create table if not exists recordings (
    recording_id text primary key,
    file text not null unique,
    name text not null,
    tags text not null,
    notes text not null,
    added text not null,
    ended text,
    ended_detail text not null,
    file_stamp text not null,
    summary text
)
"""


class Row(Struct, frozen=True, kw_only=True):
    """Recording of the library."""

    recording_id: str
    file: str  # file name in the folder
    name: str
    tags: list[str] = []
    notes: str = ""
    added: str  # ISO 8601, UTC
    ended: Ended | None = None  # None: being recorded
    ended_detail: str = ""  # sentence for the user
    file_stamp: str = ""  # size and modification time of the file when `summary` was read
    summary: Summary | None = None  # None: being recorded


_KINDS = get_type_hints(Row, include_extras=True)


class Index:
    """Rows of the index. Any number of threads and processes may use it.

    Raises:
        sqlite3.Error: the file is not a database, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._path = path
        self._database = sqlite3.connect(path, timeout=LOCK_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            self._database.execute(_TABLE)
            self._read("limit 1")
            self._file = _identity(path)
        except BaseException:
            self._database.close()
            raise

    @property
    def still_exists(self) -> bool:
        """Whether the opened file still exists at its path, since SQLite continues to use a deleted file."""
        try:
            return _identity(self._path) == self._file
        except OSError:
            return False

    def rows(self) -> list[Row]:
        """Return every row, latest first."""
        return self._read("order by added desc, rowid desc")

    def row(self, recording_id: str) -> Row | None:
        """Return the row of a recording."""
        return next(iter(self._read("where recording_id = ?", recording_id)), None)

    def put(self, row: Row) -> None:
        """Insert or replace a row."""
        values: dict[str, Any] = {
            **msgspec.structs.asdict(row),
            "file": _storable(row.file),
            "tags": msgspec.json.encode(row.tags).decode(),
            "summary": msgspec.json.encode(row.summary).decode() if row.summary else None,
        }
        names = ", ".join(values)
        with self._lock:
            self._database.execute(
                f"insert or replace into recordings ({names}) values ({', '.join('?' * len(values))})",
                list(values.values()),
            )

    def remove(self, recording_id: str) -> None:
        """Delete a row."""
        with self._lock:
            self._database.execute("delete from recordings where recording_id = ?", [recording_id])

    def close(self) -> None:
        with self._lock, contextlib.suppress(sqlite3.Error):
            self._database.close()

    def _read(self, rest: str, *values: Any) -> list[Row]:
        with self._lock:
            cursor = self._database.execute(f"select {', '.join(Row.__struct_fields__)} from recordings {rest}", values)
            found = cursor.fetchall()
        rows = (_row(dict(zip(Row.__struct_fields__, values, strict=True))) for values in found)
        return [row for row in rows if row]


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _storable(file: str) -> str | bytes:
    """Return a file's name, or its bytes if it is not valid text."""
    try:
        file.encode()
        return file
    except UnicodeEncodeError:
        return os.fsencode(file)


def _row(values: dict[str, Any]) -> Row | None:
    """Decode a row. Invalid columns get defaults; None is returned if the id or the file name is invalid."""
    if isinstance(values["file"], bytes):
        values["file"] = os.fsdecode(values["file"])
    read: dict[str, Any] = {}
    for name, kind in _KINDS.items():
        value = values[name]
        with contextlib.suppress(msgspec.MsgspecError, TypeError):
            if name in ("tags", "summary") and value is not None:
                value = msgspec.json.decode(value)
            read[name] = msgspec.convert(value, kind)
    if not {"recording_id", "file"} <= read.keys() or os.path.basename(read["file"]) != read["file"]:
        return None
    return Row(**{"name": read["recording_id"], "added": "", "ended": "imported", **read})
