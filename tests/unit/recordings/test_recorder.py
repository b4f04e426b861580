"""Recordings of a run, which have its bytes and do not affect it."""

import contextlib
import errno
import os
import sqlite3
from pathlib import Path

import pytest

from app.ground.errors import AppError
from app.recordings.index import Index, Row
from app.recordings.library import Library
from app.recordings.rows import INDEX_FILE
from app.session.run import Run
from engine.trace.log import TraceReader
from tests.unit.recordings.conftest import steps


def log_bytes(run: Run) -> bytes:
    return b"".join(run.log.file_chunks(run.log.num_bytes))


def test_a_recording_has_the_bytes_of_earlier_and_later_records(library: Library, run: Run) -> None:
    recorder = library.record(run, "moon", ["a"])
    assert recorder.path.read_bytes() == log_bytes(run)
    steps(run, 3)
    assert recorder.path.read_bytes() == log_bytes(run)  # records are written at once
    (entry,) = library.entries()
    assert entry.recording and entry.summary.num_records == 6 and (entry.name, entry.tags) == ("moon", ["a"])
    recorder.end("stopped")
    steps(run, 2)
    (entry,) = library.entries()
    assert not entry.recording and entry.ended == "stopped" and entry.summary.num_records == 6
    assert entry.summary.preview == "moonlight" and entry.summary.num_steps == 5
    assert len(run.log) == 8


def test_a_run_may_be_recorded_to_two_files(library: Library, run: Run) -> None:
    first, second = library.record(run, "", []), library.record(run, "", [])
    steps(run, 1)
    assert first.path != second.path and first.path.read_bytes() == second.path.read_bytes()


def test_the_log_stays_open_while_it_is_recorded(library: Library, run: Run) -> None:
    recorder = library.record(run, "", [])
    engine = run.engine
    run.retire()
    engine.step()  # the log is still open
    recorder.end("reset")
    with pytest.raises(AppError):
        library.record(run, "", [])
    assert [entry.ended for entry in library.entries()] == ["reset"]  # the refused recording has no entry


class FullDisk:
    """File that accepts `room` more bytes."""

    def __init__(self, file: object, capacity: int) -> None:
        self._file, self._capacity = file, capacity

    def write(self, data: bytes) -> int:
        if not self._capacity:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._file.write(data[: self._capacity])  # type: ignore[attr-defined]
        self._capacity -= written
        return int(written)

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


def test_on_a_full_disk_the_recording_ends_and_the_run_continues(
    library: Library, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk has room for one more record and 10 bytes, so the recording ends after 4 of 6 records."""
    recorder = library.record(run, "moon", [])
    before = recorder.num_bytes
    steps(run, 1)
    size = recorder.num_bytes
    assert size > before
    monkeypatch.setattr(recorder, "_file", FullDisk(recorder._file, 10))
    steps(run, 2)
    assert len(run.log) == 6
    assert recorder.path.stat().st_size == size
    (entry,) = library.entries()
    assert entry.ended == "write_failed"
    assert entry.ended_detail == "the recording ended after 4 records: No space left on device"
    with TraceReader(recorder.path) as reader:
        assert len(reader) == 4 == entry.summary.num_records and reader.damage is None
    assert recorder.status()["ended"] == "write_failed"


def test_the_end_of_a_recording_is_stored_once_the_disk_has_room(
    library: Library, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.recordings.rows.RETRY_SECONDS", 0.0)
    recorder = library.record(run, "moon", [])
    put, full = Index.put, [True]

    def failing(index: Index, row: Row) -> None:
        if full[0]:
            raise sqlite3.OperationalError("database or disk is full")
        put(index, row)

    def stored() -> list[tuple[str | None]]:
        with contextlib.closing(sqlite3.connect(folder / INDEX_FILE)) as database:
            return database.execute("select ended from recordings").fetchall()

    monkeypatch.setattr(Index, "put", failing)
    recorder.end("write_failed", "the recording ended after 3 records: No space left on device")
    assert library.entry(recorder.recording_id).ended == "write_failed"
    assert stored() == [(None,)]
    full[0] = False  # room is freed
    assert [entry.ended for entry in library.entries()] == ["write_failed"]
    assert stored() == [("write_failed",)]


def test_no_recording_starts_without_a_writable_folder(folder: Path, run: Run) -> None:
    if os.geteuid() == 0:
        folder.parent.mkdir(exist_ok=True)
        folder.write_text("a file where the folder belongs")
    else:
        folder.parent.chmod(0o500)
    with pytest.raises(AppError, match="recordings cannot be saved"):
        Library(folder).record(run, "", [])
    with pytest.raises(AppError, match="stores no recordings"):
        Library(None).record(run, "", [])
    steps(run, 1)
