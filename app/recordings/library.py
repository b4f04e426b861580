"""Recordings of a server: its own folder with an index, and shelves of read-only files."""

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
    """Library of recordings to replay. Thread-safe.

    Raises (every change):
        AppError: `not_found`; `refused`, with the reason: no folder, a full disk, a recording in progress.
    """

    def __init__(self, folder: Path | None, shelves: Iterable[Shelf] = (), settings: ServerSettings = DEFAULTS) -> None:
        """Repair folder and index. The folder is created with the first recording; None: recordings cannot be stored.

        `settings` limit the library's size.
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
        """Findings in the folder: repaired ones, and open ones."""
        return self._rows.findings if self._rows else []

    def entries(self) -> list[Entry]:
        """Return every recording: the library's, latest first, then the shelves'."""
        own = [entry for row in (self._rows.all() if self._rows else []) if (entry := self._entry(row))]
        return own + [entry for shelf in self._shelves for entry in shelf.entries()]

    def first_shown(self) -> str | None:
        """Return the id of the first file given at the server's start, or None."""
        return next((found for shelf in self._shelves if shelf.source == "file" for found in shelf.ids), None)

    def entry(self, recording_id: str) -> Entry:
        """Return the entry of a recording."""
        row = self._row(recording_id)
        found = self._entry(row) if row else self._shelved(recording_id)
        if found is None:
            raise _unknown(recording_id)
        return found

    def path(self, recording_id: str) -> Path:
        """Return the path of a recording."""
        row = self._row(recording_id)
        if row is not None and self._folder is not None:
            path: Path | None = self._folder / row.file
        else:
            path = next((p for shelf in self._shelves if (p := shelf.path(recording_id))), None)
        if path is None or not path.is_file():
            raise _unknown(recording_id)
        return path

    def open(self, recording_id: str) -> TraceReader:
        """Open a recording. A file known to be valid is not verified again."""
        sound = self.entry(recording_id).summary.damage is None
        try:
            reader = TraceReader(self.path(recording_id), verify=not sound)
            initial_state(reader.header)  # raises if the page cannot draw its pool
        except (OSError, TraceFormatError, TraceStateError) as error:
            raise refuse("refused", "recording.unopened", error=error) from error
        return reader

    def record(self, run: Run, name: str, tags: list[str]) -> Recorder:
        """Start recording a run: its records so far, then each new one."""
        folder, rows, quota = self._place()
        recording_id = _new_id()
        name = name or f"{run.log.header.model.name} {_now()[:19].replace('T', ' ')}"
        row = Row(recording_id=recording_id, file=recording_id + SUFFIX, name=name, tags=tags, added=_now())
        with _one_sentence("recording.no_write"), contextlib.ExitStack() as undo:
            quota.claim(row.file, run.log.num_bytes)
            undo.callback(quota.release, row.file)
            rows.put(row)
            undo.callback(rows.remove, recording_id)
            grow = functools.partial(quota.grow, row.file)
            recorder = Recorder(recording_id, name, folder / row.file, run, grow, self._recorded)
            undo.pop_all()
        if recorder.ended is None:
            self._recorders[recording_id] = recorder
        return recorder

    @contextlib.contextmanager
    def incoming(self, size: int) -> Iterator[IO[bytes]]:
        """Yield a file in the folder for an upload of `size` bytes, deleted afterwards unless `take` is called."""
        folder, _, quota = self._place()
        with _one_sentence("recording.file"):
            path = folder / f"{_new_id()}{UPLOAD_SUFFIX}"
            with quota.claimed(path.name, size), path.open("xb") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                try:
                    yield file
                finally:
                    path.unlink(missing_ok=True)

    def take(self, received: Path, name: str, tags: list[str]) -> Entry:
        """Add a received file to the library."""
        _, rows, _ = self._place()
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
        row = self._own(recording_id)
        given = {"name": name, "tags": tags, "notes": notes}
        with _one_sentence("recording.change"):
            _, rows, _ = self._place()
            rows.put(replace(row, **{k: v for k, v in given.items() if v is not None}))
        recorder = self._recorders.get(recording_id)
        if recorder and name is not None:
            recorder.name = name
        return self.entry(recording_id)

    def delete(self, recording_id: str) -> None:
        """Delete file and entry."""
        row = self._own(recording_id)
        if row.ended is None:
            raise refuse("refused", "recording.active", name=row.name)
        with _one_sentence("recording.delete"):
            folder, rows, _ = self._place()
            (folder / row.file).unlink(missing_ok=True)
            rows.remove(recording_id)

    def close(self) -> None:
        """End running recordings and close the index."""
        for recorder in list(self._recorders.values()):
            recorder.end("closed", "the server was closed")
        if self._rows:
            self._rows.close()

    def _place(self) -> tuple[Path, Rows, Quota]:
        """Return folder, rows and quota; creates the folder if it is missing."""
        if self._folder is None or self._rows is None or self._quota is None:
            raise refuse("refused", "recording.no_folder")
        with _one_sentence("recordings.no_write"):
            self._rows.place()
        return self._folder, self._rows, self._quota

    def _recorded(self, recorder: Recorder) -> None:
        """Update the row of a recording that has ended."""
        assert self._rows and self._quota
        self._recorders.pop(recorder.recording_id, None)
        self._quota.release(recorder.path.name)
        row = self._row(recorder.recording_id)
        if row is None:
            return
        ended = replace(row, ended=recorder.ended, ended_detail=recorder.ended_detail)
        with contextlib.suppress(OSError, TraceFormatError):  # a missing file is read when it is back
            stamp = file_stamp(recorder.path)
            with TraceReader(recorder.path, verify=False) as reader:
                ended = replace(ended, file_stamp=stamp, summary=summary_of(reader))
        self._rows.put(ended, must=False)

    def _row(self, recording_id: str) -> Row | None:
        return self._rows.get(recording_id) if self._rows else None

    def _own(self, recording_id: str) -> Row:
        row = self._row(recording_id)
        if row is not None:
            return row
        if self._shelved(recording_id):
            raise refuse("refused", "recording.shown")
        raise _unknown(recording_id)

    def _shelved(self, recording_id: str) -> Entry | None:
        return next((entry for shelf in self._shelves if (entry := shelf.entry(recording_id))), None)

    def _entry(self, row: Row) -> Entry | None:
        """Return the entry of a row; None: its file is missing or unreadable."""
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
    """Convert a full disk or a locked index to the refusal `key`."""
    try:
        yield
    except OSError as error:
        raise refuse("refused", key, error=error.strerror or error) from error
    except sqlite3.Error as error:
        raise refuse("refused", key, error=error) from error


def _unknown(recording_id: str) -> AppError:
    return refuse("not_found", "recording.none", recording_id=recording_id[:60])


def _new_id() -> str:
    return f"rec-{secrets.token_hex(6)}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
