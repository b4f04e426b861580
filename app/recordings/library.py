"""The recordings of a server: its own folder with an index, and shelves of files that are only shown."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import secrets
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from msgspec.structs import replace

from app.errors import AppError
from app.paths import static_dir
from app.recordings.entry import Entry
from app.recordings.index import Index, Row
from app.recordings.recorder import Recorder
from app.recordings.repair import UPLOAD_SUFFIX, Finding, open_index, repair
from app.recordings.shelf import SUFFIX, Shelf, file_stamp, traces_in
from app.recordings.summary import Summary, summarize, summary_of
from app.run import Run
from app.settings import ServerSettings
from engine.trace.codec import TraceFormatError
from engine.trace.log import TraceReader
from engine.trace.state import TraceStateError, initial_state

INDEX_FILE = "index.sqlite"
logger = logging.getLogger(__name__)


def open_library(settings: ServerSettings, shown: Iterable[Path] = ()) -> Library:
    """The library in the server's data folder, with the recordings that come with the program and those in `shown`."""
    folder = settings.data_dir / "recordings" if settings.data_dir else None
    return Library(folder, [Shelf("file", shown), Shelf("shipped", traces_in(static_dir() / "recordings"))])


class Library:
    """What there is to replay. Every method may be called from any thread.

    Raises (what changes something):
        AppError: `not_found`; `refused`, with the reason: there is no folder, the disk is full, it is being recorded.
    """

    def __init__(self, folder: Path | None, shelves: Iterable[Shelf] = ()) -> None:
        """Puts folder and index right. The folder is made when something is kept; None: nothing can be kept."""
        self._folder = folder
        self._shelves = list(shelves)
        self._index: Index | None = None
        self._recorders: dict[str, Recorder] = {}
        self._unsaved: dict[str, Row] = {}  # rows that the index had no room for
        self._lock = threading.Lock()
        self.findings: list[Finding] = []
        if folder is not None and folder.is_dir():
            try:
                self._open(folder)
            except (OSError, sqlite3.Error) as error:
                self._folder = None
                message = f"the recordings in {folder} cannot be used: {error}"
                self.findings = [Finding(kind="missing", recording=None, message=message)]
        for finding in self.findings:
            logger.warning("%s", finding.message)

    @property
    def can_keep(self) -> bool:
        """Whether there is a place for recordings."""
        return self._folder is not None

    def entries(self) -> list[Entry]:
        """Every recording: the library's, the latest first, then the shelves'."""
        own = [entry for row in self._rows() if (entry := self._entry(row))]
        return own + [entry for shelf in self._shelves for entry in shelf.entries()]

    def entry(self, recording_id: str) -> Entry:
        """One of them."""
        row = self._row(recording_id)
        found = self._entry(row) if row else self._shelved(recording_id)
        if found is None:
            raise _unknown(recording_id)
        return found

    def path(self, recording_id: str) -> Path:
        """Where its file lies."""
        row = self._row(recording_id)
        if row is not None and self._folder is not None:
            path: Path | None = self._folder / row.file
        else:
            path = next((p for shelf in self._shelves if (p := shelf.path(recording_id))), None)
        if path is None or not path.is_file():
            raise _unknown(recording_id)
        return path

    def open(self, recording_id: str) -> TraceReader:
        """The trace, for reading. A file that is known to be sound is not read through again."""
        sound = self.entry(recording_id).summary.damage is None
        try:
            reader = TraceReader(self.path(recording_id), verify=not sound)
            initial_state(reader.header)  # or no page could draw its pool
        except (OSError, TraceFormatError, TraceStateError) as error:
            raise AppError("refused", f"the recording cannot be opened: {error}") from error
        return reader

    def record(self, run: Run, name: str, tags: list[str]) -> Recorder:
        """Begin to record a run: what it has already, and what comes."""
        folder, index = self._place()
        recording_id = f"rec-{secrets.token_hex(6)}"
        name = name or f"{run.log.header.model.name} {_now()[:19].replace('T', ' ')}"
        row = Row(recording_id=recording_id, file=recording_id + SUFFIX, name=name, tags=tags, added=_now())
        with _one_sentence("the recording cannot be kept"):
            index.put(row)
            try:
                recorder = Recorder(recording_id, name, folder / row.file, run, self._recorded)
            except BaseException:
                index.remove(recording_id)
                raise
        if recorder.ended is None:
            self._recorders[recording_id] = recorder
        return recorder

    @contextlib.contextmanager
    def incoming(self) -> Iterator[IO[bytes]]:
        """A file of the folder to write an upload into; it is gone afterwards unless `take` has taken it."""
        folder, _ = self._place()
        with _one_sentence("the file cannot be kept"):
            path = folder / f"{secrets.token_hex(6)}{UPLOAD_SUFFIX}"
            with path.open("xb") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                try:
                    yield file
                finally:
                    path.unlink(missing_ok=True)

    def take(self, received: Path, name: str, tags: list[str]) -> Entry:
        """Make a received file one of the library's."""
        folder, index = self._place()
        summary = summarize(received)
        recording_id = f"rec-{secrets.token_hex(6)}"
        path = folder / (recording_id + SUFFIX)
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
            index.put(row)
        except sqlite3.Error:
            path.unlink(missing_ok=True)
            raise
        return self.entry(recording_id)

    def change(
        self, recording_id: str, name: str | None = None, tags: list[str] | None = None, notes: str | None = None
    ) -> Entry:
        """Give it another name, other tags or notes; None leaves them."""
        row = self._own(recording_id)
        given = {"name": name, "tags": tags, "notes": notes}
        with _one_sentence("the change cannot be kept"):
            self._put(replace(row, **{k: v for k, v in given.items() if v is not None}))
        recorder = self._recorders.get(recording_id)
        if recorder and name is not None:
            recorder.name = name
        return self.entry(recording_id)

    def delete(self, recording_id: str) -> None:
        """Delete file and entry."""
        row = self._own(recording_id)
        if row.ended is None:
            raise AppError("refused", f"“{row.name}” is being recorded: stop that first")
        assert self._folder is not None and self._index is not None
        with _one_sentence("it cannot be deleted"):
            (self._folder / row.file).unlink(missing_ok=True)
            self._unsaved.pop(recording_id, None)
            self._index.remove(recording_id)

    def close(self) -> None:
        """End what is being recorded and close the index."""
        for recorder in list(self._recorders.values()):
            recorder.end("closed", "the server was closed")
        if self._index is not None:
            with contextlib.suppress(sqlite3.Error):
                self._save()
            self._index.close()

    def _open(self, folder: Path) -> Index:
        index, findings = open_index(folder / INDEX_FILE)
        self._index = index
        self.findings = findings + repair(folder, index, _now())
        return index

    def _place(self) -> tuple[Path, Index]:
        """Folder and index, made when they are first needed."""
        if self._folder is None:
            raise AppError("refused", "this server keeps no recordings: it was started without a folder for them")
        with self._lock, _one_sentence("recordings cannot be kept"):
            if self._index is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._open(self._folder)
            assert self._index is not None
            return self._folder, self._index

    def _recorded(self, recorder: Recorder) -> None:
        """A recording has ended: its row says how, and what the file has."""
        self._recorders.pop(recorder.recording_id, None)
        row = self._row(recorder.recording_id)
        if row is None:
            return
        with TraceReader(recorder.path, verify=False) as reader:
            summary = summary_of(reader)
        stamp = file_stamp(recorder.path)
        self._put(
            replace(row, ended=recorder.ended, ended_detail=recorder.ended_detail, file_stamp=stamp, summary=summary),
            must=False,
        )

    def _put(self, row: Row, must: bool = True) -> None:
        """Save the row; without `must` it is kept in memory while the index cannot be written."""
        assert self._index is not None
        try:
            self._index.put(row)
            self._unsaved.pop(row.recording_id, None)
        except sqlite3.Error:
            if must:
                raise
            self._unsaved[row.recording_id] = row

    def _save(self) -> None:
        """Write what could not be written before."""
        for row in list(self._unsaved.values()):
            self._put(row, must=False)

    def _rows(self) -> list[Row]:
        if self._index is None:
            return []
        self._save()
        return [self._unsaved.get(row.recording_id, row) for row in self._index.rows()]

    def _row(self, recording_id: str) -> Row | None:
        unsaved = self._unsaved.get(recording_id)
        return unsaved or (self._index.row(recording_id) if self._index else None)

    def _own(self, recording_id: str) -> Row:
        row = self._row(recording_id)
        if row is not None:
            return row
        if self._shelved(recording_id):
            raise AppError("refused", "this recording is only shown here: download it, and upload it to keep a copy")
        raise _unknown(recording_id)

    def _shelved(self, recording_id: str) -> Entry | None:
        return next((entry for shelf in self._shelves if (entry := shelf.entry(recording_id))), None)

    def _entry(self, row: Row) -> Entry | None:
        """None: its file is gone or cannot be read."""
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
        assert self._folder is not None
        path = self._folder / row.file
        if row.ended is None:  # growing: here, or in another process
            with TraceReader(path, verify=False) as reader:
                return summary_of(reader)
        stamp = file_stamp(path)
        if row.summary is not None and row.file_stamp == stamp:
            return row.summary
        summary = summarize(path)  # the file was changed by somebody else
        self._put(replace(row, summary=summary, file_stamp=stamp), must=False)
        return summary


@contextlib.contextmanager
def _one_sentence(what: str) -> Iterator[None]:
    """A full disk or a locked index as a refusal."""
    try:
        yield
    except OSError as error:
        raise AppError("refused", f"{what}: {error.strerror or error}") from error
    except sqlite3.Error as error:
        raise AppError("refused", f"{what}: {error}") from error


def _unknown(recording_id: str) -> AppError:
    return AppError("not_found", f"there is no recording {recording_id[:60]!r}; it may have been deleted")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
