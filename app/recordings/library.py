"""Recordings of a server: a folder with an index, and shelves of read-only files."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from msgspec.structs import replace

from app.ground.errors import AppError, refuse
from app.ground.paths import static_dir
from app.ground.settings import ServerSettings
from app.recordings.index import Row
from app.recordings.quota import Quota
from app.recordings.repair import UPLOAD_SUFFIX, Finding
from app.recordings.rows import Rows
from app.recordings.shelf import SUFFIX, Entry, Shelf, file_stamp, traces_in
from app.session.recorder import Recorder
from app.session.run import Run
from app.session.summary import Summary, summarize, summary_of
from engine.trace.codec import TraceFormatError
from engine.trace.log import TraceReader
from engine.trace.state import TraceStateError, initial_state

DEFAULTS = ServerSettings()


def open_library(settings: ServerSettings, shown: Iterable[Path] = ()) -> Library:
    """Return the library in the server's data folder, with the shipped recordings and those in `shown`."""
    folder = settings.data_dir / "recordings" if settings.data_dir else None
    shipped = Shelf("shipped", traces_in(static_dir() / "recordings"))
    return Library(folder, [Shelf("file", shown, shipped.ids), shipped], settings)


class Library:
    """Library of recordings. Thread-safe.

    Raises (every change):
        AppError: `not_found`; `refused` if there is no folder, the disk is full, or the recording is in progress.
    """

    def __init__(self, folder: Path | None, shelves: Iterable[Shelf] = (), settings: ServerSettings = DEFAULTS) -> None:
        """Repair folder and index.

        Args:
            folder: created with the first recording; None: recordings cannot be stored.
            settings: limits of the library's size.
        """
        self._folder = folder
        self._shelves = list(shelves)
        self._rows = Rows(folder, _now) if folder else None
        self._quota = Quota(folder, settings.max_recordings, settings.max_library_bytes) if folder else None
        self._recorders: dict[str, Recorder] = {}

    @property
    def can_keep(self) -> bool:
        """Whether recordings can be stored."""
        return self._folder is not None

    @property
    def findings(self) -> list[Finding]:
        """Inconsistencies found in folder and index, both repaired and current ones."""
        return self._rows.findings if self._rows else []

    def entries(self) -> list[Entry]:
        """Return every recording: those of the library, latest first, then those of the shelves."""
        own = [entry for row in (self._rows.all() if self._rows else []) if (entry := self._entry(row))]
        return own + [entry for shelf in self._shelves for entry in shelf.entries()]

    def first_given_file(self) -> str | None:
        """Return the id of the first file given at the server's start, or None."""
        return next((found for shelf in self._shelves if shelf.source == "file" for found in shelf.ids), None)

    def entry(self, recording_id: str) -> Entry:
        """Return the entry of a recording."""
        row = self._row(recording_id)
        found = self._entry(row) if row else self._shelf_entry(recording_id)
        if found is None:
            raise _not_found(recording_id)
        return found

    def path(self, recording_id: str) -> Path:
        """Return the path of a recording."""
        row = self._row(recording_id)
        if row is not None and self._folder is not None:
            path: Path | None = self._folder / row.file
        else:
            path = next((p for shelf in self._shelves if (p := shelf.path(recording_id))), None)
        if path is None or not path.is_file():
            raise _not_found(recording_id)
        return path

    def open(self, recording_id: str) -> TraceReader:
        """Open a recording. A file known to be valid is not verified again."""
        is_valid = self.entry(recording_id).summary.damage is None
        try:
            reader = TraceReader(self.path(recording_id), verify=not is_valid)
            initial_state(reader.header)  # raises if the header does not describe a valid pool
        except (OSError, TraceFormatError, TraceStateError) as error:
            raise refuse("refused", "recording.unopened", error=error) from error
        return reader

    def record(self, run: Run, name: str, tags: list[str]) -> Recorder:
        """Start recording a run: copy its records so far, then each new one."""
        folder, rows, quota = self._writable()
        recording_id = _new_id()
        name = name or f"{run.log.header.model.name} {_now()[:19].replace('T', ' ')}"
        row = Row(recording_id=recording_id, file=recording_id + SUFFIX, name=name, tags=tags, added=_now())
        with _one_sentence("recording.no_write"), contextlib.ExitStack() as undo:
            quota.claim(row.file, run.log.num_bytes)
            undo.callback(quota.release, row.file)
            rows.put(row)
            undo.callback(rows.remove, recording_id)
            reserve = functools.partial(quota.grow, row.file)
            recorder = Recorder(recording_id, name, folder / row.file, run, reserve, self._on_recording_end)
            undo.pop_all()
        if recorder.ended is None:
            self._recorders[recording_id] = recorder
        return recorder

    @contextlib.contextmanager
    def upload_file(self, size: int) -> Iterator[IO[bytes]]:
        """Yield a file for an upload of `size` bytes, which is deleted afterwards unless `add_upload` is called."""
        folder, _, quota = self._writable()
        with _one_sentence("recording.file"):
            path = folder / f"{_new_id()}{UPLOAD_SUFFIX}"
            with quota.claimed(path.name, size), path.open("xb") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                try:
                    yield file
                finally:
                    path.unlink(missing_ok=True)

    def add_upload(self, received: Path, name: str, tags: list[str]) -> Entry:
        """Add a received file to the library."""
        _, rows, _ = self._writable()
        summary = summarize(received)
        recording_id, path = received.stem, received.with_suffix(SUFFIX)
        received.rename(path)
        row = Row(
            recording_id=recording_id,
            file=path.name,
            name=name,
            tags=tags,
            added=_now(),
            ended="imported",
            file_stamp=file_stamp(path),
            summary=summary,
        )
        try:
            rows.put(row)
        except (OSError, sqlite3.Error):
            path.unlink(missing_ok=True)
            raise
        return self.entry(recording_id)

    def change(
        self, recording_id: str, name: str | None = None, tags: list[str] | None = None, notes: str | None = None
    ) -> Entry:
        """Change name, tags or notes; None leaves them unchanged."""
        row = self._library_row(recording_id)
        given = {"name": name, "tags": tags, "notes": notes}
        with _one_sentence("recording.change"):
            _, rows, _ = self._writable()
            rows.put(replace(row, **{k: v for k, v in given.items() if v is not None}))
        recorder = self._recorders.get(recording_id)
        if recorder and name is not None:
            recorder.name = name
        return self.entry(recording_id)

    def delete(self, recording_id: str) -> None:
        """Delete file and entry."""
        row = self._library_row(recording_id)
        if row.ended is None:
            raise refuse("refused", "recording.active", name=row.name)
        with _one_sentence("recording.delete"):
            folder, rows, _ = self._writable()
            (folder / row.file).unlink(missing_ok=True)
            rows.remove(recording_id)

    def close(self) -> None:
        """End running recordings and close the index."""
        for recorder in list(self._recorders.values()):
            recorder.end("closed", "the server was closed")
        if self._rows:
            self._rows.close()

    def _writable(self) -> tuple[Path, Rows, Quota]:
        """Return folder, rows and quota. Creates the folder if it is missing."""
        if self._folder is None or self._rows is None or self._quota is None:
            raise refuse("refused", "recording.no_folder")
        with _one_sentence("recordings.no_write"):
            self._rows.ensure_folder()
        return self._folder, self._rows, self._quota

    def _on_recording_end(self, recorder: Recorder) -> None:
        """Update the row of a recording that has ended."""
        assert self._rows and self._quota
        self._recorders.pop(recorder.recording_id, None)
        self._quota.release(recorder.path.name)
        row = self._row(recorder.recording_id)
        if row is None:
            return
        ended = replace(row, ended=recorder.ended, ended_detail=recorder.ended_detail)
        with contextlib.suppress(OSError, TraceFormatError):  # a missing file is read after it is restored
            stamp = file_stamp(recorder.path)
            with TraceReader(recorder.path, verify=False) as reader:
                ended = replace(ended, file_stamp=stamp, summary=summary_of(reader))
        self._rows.put(ended, must=False)

    def _row(self, recording_id: str) -> Row | None:
        return self._rows.get(recording_id) if self._rows else None

    def _library_row(self, recording_id: str) -> Row:
        row = self._row(recording_id)
        if row is not None:
            return row
        if self._shelf_entry(recording_id):
            raise refuse("refused", "recording.shown")
        raise _not_found(recording_id)

    def _shelf_entry(self, recording_id: str) -> Entry | None:
        return next((entry for shelf in self._shelves if (entry := shelf.entry(recording_id))), None)

    def _entry(self, row: Row) -> Entry | None:
        """Return the entry of a row, or None if its file is missing or unreadable."""
        try:
            summary = self._summary(row)
        except (OSError, TraceFormatError, ValueError):
            return None
        return Entry(
            id=row.recording_id,
            source="library",
            name=row.name,
            tags=row.tags,
            notes=row.notes,
            added=row.added,
            ended=row.ended,
            ended_detail=row.ended_detail,
            recording=row.ended is None,
            summary=summary,
        )

    def _summary(self, row: Row) -> Summary:
        assert self._folder and self._rows
        path = self._folder / row.file
        if row.ended is None:  # being recorded, here or in another process
            with TraceReader(path, verify=False) as reader:
                return summary_of(reader)
        stamp = file_stamp(path)
        if row.summary is not None and row.file_stamp == stamp:
            return row.summary
        summary = summarize(path)  # another program changed the file
        self._rows.put(replace(row, summary=summary, file_stamp=stamp), must=False)
        return summary


@contextlib.contextmanager
def _one_sentence(key: str) -> Iterator[None]:
    """Convert errors of the disk and the index to an AppError with the sentence `key`."""
    try:
        yield
    except OSError as error:
        raise refuse("refused", key, error=error.strerror or error) from error
    except sqlite3.Error as error:
        raise refuse("refused", key, error=error) from error


def _not_found(recording_id: str) -> AppError:
    return refuse("not_found", "recording.none", recording_id=recording_id[:60])


def _new_id() -> str:
    return f"rec-{secrets.token_hex(6)}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
