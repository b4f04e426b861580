"""Repair of folder and index, at the start and after either was lost."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from app.recordings.index import Index, Row
from app.recordings.shelf import file_stamp, readable, recording_id, traces_in
from app.session.summary import summarize, summary_of
from engine.trace.codec import TraceFormatError
from engine.trace.log import TraceReader

UPLOAD_SUFFIX = ".part"
logger = logging.getLogger(__name__)


class Finding(Struct, frozen=True, kw_only=True):
    """Inconsistency, and how it was repaired."""

    kind: Literal[
        "index_rebuilt",
        "index_unavailable",  # currently
        "folder_gone",  # currently
        "interrupted",
        "adopted",
        "missing",
        "not_a_trace",
        "damaged",
        "upload_removed",
    ]
    recording: str | None  # id of the recording
    message: str  # one sentence


def open_index(path: Path) -> tuple[Index, list[Finding]]:
    """Open the index. A damaged one is renamed and replaced by an empty one."""
    try:
        return Index(path), []
    except sqlite3.DatabaseError as error:
        is_other_schema = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_ERROR  # unknown tables
        if isinstance(error, sqlite3.OperationalError) and not is_other_schema:
            raise  # locked, or on a read-only disk
        aside = _unused(path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}"))
        path.rename(aside)
        with contextlib.suppress(OSError):  # SQLite would replay it into the new index
            path.with_name(path.name + "-journal").rename(aside.with_name(aside.name + "-journal"))
        message = f"the index was damaged ({error}): it was renamed to {aside.name} and rebuilt from the files"
        return Index(path), [Finding(kind="index_rebuilt", recording=None, message=message)]


def _unused(path: Path) -> Path:
    """Return the path, with a number appended if it exists."""
    count, free = 1, path
    while free.exists():
        count += 1
        free = path.with_name(f"{path.name}-{count}")
    return free


def repair(folder: Path, index: Index, now: str) -> list[Finding]:
    """Make the index consistent with the folder."""
    findings: list[Finding] = []
    rows = {row.file: row for row in index.rows()}
    for path in traces_in(folder):
        row = rows.pop(path.name, None)
        try:
            found = _adopt(path, now) if row is None else _check_row(path, row)
        except Exception as error:  # an invalid file must not hide the others
            if not isinstance(error, OSError | TraceFormatError):
                logger.exception("%s", readable(path.name))
            message = f"{readable(path.name)} was ignored: {readable(str(error))}"
            findings.append(Finding(kind="not_a_trace", recording=row.recording_id if row else None, message=message))
            continue
        if found:
            row, finding = found
            index.put(row)
            findings += [finding] if finding else []
    for row in rows.values():
        message = f"the file of “{row.name}” is gone: its name and notes remain stored, in case it is restored"
        findings.append(Finding(kind="missing", recording=row.recording_id, message=message))
    for path in sorted(folder.glob(f"*{UPLOAD_SUFFIX}")):
        if _if_not_locked(path, path.unlink):
            message = f"an incomplete upload was removed ({readable(path.name)})"
            findings.append(Finding(kind="upload_removed", recording=None, message=message))
    return findings


def _adopt(path: Path, now: str) -> tuple[Row, Finding]:
    """Create a row for a file without one."""
    summary = summarize(path)
    row = Row(
        recording_id=recording_id(path.stem),
        file=path.name,
        name=readable(path.stem),
        added=now,
        ended="imported",
        file_stamp=file_stamp(path),
        summary=summary,
    )
    message = f"{readable(path.name)} was not in the index: it was added, with {summary.num_records} records"
    if summary.damage:
        message += f"; {summary.damage}"
    return row, Finding(kind="adopted", recording=row.recording_id, message=message)


def _check_row(path: Path, row: Row) -> tuple[Row, Finding | None] | None:
    """Check a file with a row for an interrupted recording and for changes."""
    if row.ended is None:
        done: list[tuple[Row, Finding]] = []
        _if_not_locked(path, lambda: done.append(_interrupted(path, row)))
        return done[0] if done else None
    stamp = file_stamp(path)
    if row.summary is not None and row.file_stamp == stamp:
        return None
    summary = summarize(path)
    changed = replace(row, summary=summary, file_stamp=stamp)
    if summary.damage and not (row.summary and row.summary.damage):
        message = f"“{row.name}” is damaged: {summary.damage}"
        return changed, Finding(kind="damaged", recording=row.recording_id, message=message)
    return changed, None


def _interrupted(path: Path, row: Row) -> tuple[Row, Finding]:
    """Repair a recording whose server was killed by removing the incomplete last record."""
    with TraceReader(path) as reader:
        end, size = reader.whole_end, reader.num_bytes
    if end < size:
        with path.open("r+b") as file:
            file.truncate(end)
    with TraceReader(path, verify=False) as reader:
        summary = summary_of(reader)
    removed = f", {size - end:,} bytes of an unfinished one removed" if end < size else ""
    detail = f"the server ended while it was recorded: {summary.num_records} records kept{removed}"
    ended = replace(row, ended="interrupted", ended_detail=detail, file_stamp=file_stamp(path), summary=summary)
    return ended, Finding(kind="interrupted", recording=row.recording_id, message=f"“{row.name}”: {detail}")


def _if_not_locked(path: Path, do: Callable[[], object]) -> bool:
    """Call `do` unless a process has locked the file for writing. Returns whether it was called."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        do()
        return True
    return False
