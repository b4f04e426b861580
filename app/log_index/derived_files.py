"""Files derived from logs by a separate process, and cached in the server's data folder.

Files of a live run are deleted with the run, or after IDLE seconds without access. Cached files may be deleted at any
time. They are validated on use: a file that is damaged or of another log is rebuilt.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import IO, ClassVar, Generic, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

from app.ground.errors import refuse
from app.log_index.cache_dir import LIVE, drop_unused, folder_in, name_of
from app.session.run import OpenLog
from engine.system.host import child_environment
from engine.trace.derived_file import DerivedFileError
from engine.trace.log import TraceReader, TraceWriter
from engine.trace.log_index.log_index import LogIndex
from engine.trace.query.table_cache import DATA, SUFFIX, CachedTables

IDLE = 600.0  # seconds without access after which a live run's files are deleted
CHECK_SECONDS = 1.0  # between two checks of IDLE
MAX_READ = 4  # files of a kind cached in memory

T = TypeVar("T")


class DerivedFiles(ABC, Generic[T]):
    """Derived files of one kind: per log an index and its data. All methods may be called on any thread."""

    program: ClassVar[str]  # called with the log and the index to write; reports progress as lines of JSON
    suffix: ClassVar[str]  # of the index
    data_suffix: ClassVar[str]  # of the data file beside it
    follows: ClassVar[bool]  # the program follows a growing log until its input ends
    failed: ClassVar[str]  # beginning of an error message

    def __init__(self, data_dir: Path | None) -> None:
        """Set up the cache. `data_dir` None: use a temporary folder, deleted when the server ends."""
        self._temporary = tempfile.TemporaryDirectory(prefix="kvtheater-") if data_dir is None else None
        self._folder = Path(self._temporary.name) if self._temporary else folder_in(data_dir or Path())
        self._lock = threading.Lock()
        self._making: dict[Path, subprocess.Popen[bytes]] = {}  # index -> process that builds it
        self._done: dict[Path, int] = {}  # index that is being built -> records done
        self._read: dict[Path, T] = {}  # least recently used first
        self._stamps: dict[Path, tuple[int, ...]] = {}  # stat of the files in `_read`
        self._used_at: dict[Path, float] = {}  # index of a live run -> time of its last use
        self._names: WeakKeyDictionary[OpenLog, Path] = WeakKeyDictionary()  # live run -> index
        self._failed: dict[Path, str] = {}  # index -> error of the last build
        self._is_over = False

    @abstractmethod
    def open(self, index: Path, log: TraceReader, known: T | None) -> T:
        """Read the files. `known`: result of an earlier call.

        Raises:
            DerivedFileError: the files are missing, damaged, or of another log.
        """

    @abstractmethod
    def is_of(self, made: T, log: TraceReader) -> bool:
        """Return whether the index belongs to this log; it may cover only its beginning."""

    @abstractmethod
    def is_whole(self, made: T, log: TraceReader) -> bool:
        """Return whether the index covers the whole log, which may have grown since."""

    def find(self, run: OpenLog) -> T:
        """Return the current files of a run. Starts to build them if they are missing or outdated.

        Raises:
            AppError: `loading`: the files are not ready, retry; `refused`: they cannot be built.
        """
        with run.reading() as log:
            if run.is_held_back:
                raise refuse("refused", "index.held_back")
            with self._lock:
                target = self._target(run, log)
                known = self._read.get(target)
                if known is None or not self.is_of(known, log) or not self.is_whole(known, log):
                    known = self._open_cached(target, log)
                    if known is None and (why := self._failed.pop(target, None)):
                        raise refuse("refused", "index.failed", failed=self.failed, why=why)  # a retry builds it again
                    if (known is None or not self.is_whole(known, log)) and target not in self._making:
                        self._begin(target, log, run)
                if known is not None:
                    self._mark_used(target, known)
                    return known
                done, count = self._done.get(target, 0), len(log)
        raise refuse("loading", "index.reading", done=done, count=count)

    def forget(self, run: OpenLog) -> None:
        """Invalidate a run's damaged files, so that they are rebuilt."""
        with run.reading() as log, self._lock:
            for target, known in list(self._read.items()):
                if self.is_of(known, log):
                    process = self._making.pop(target, None)
                    if process is not None:  # stop it from appending to the damaged file
                        process.terminate()
                        process.wait()
                    del self._read[target]
                    target.unlink(missing_ok=True)

    def close(self) -> None:
        """End all builds."""
        with self._lock:
            self._is_over = True
            for target in [*self._making, *self._names.values()]:
                self._end(target)
        if self._temporary is not None:
            self._temporary.cleanup()

    def _target(self, run: OpenLog, log: TraceReader) -> Path:
        """Return the path of a run's index."""
        if isinstance(run.full_log, TraceWriter):
            target = self._names.get(run)
            if target is None or target not in self._used_at:
                target = self._names[run] = self._folder / f"{LIVE}{uuid4().hex}{self.suffix}"
                self._used_at[target] = time.monotonic()
                threading.Thread(target=self._until_over, args=(target, run), daemon=True).start()
            self._used_at[target] = time.monotonic()
            return target
        if log.path is None:
            raise refuse("refused", "index.no_file", failed=self.failed)
        return self._folder / f"{name_of(log.path)}{self.suffix}"

    def _open_cached(self, target: Path, log: TraceReader) -> T | None:
        """Return the files of a log, read again if they have changed; None if unusable."""
        try:
            file = target.stat()
            stamp = (file.st_mtime_ns, file.st_ino, file.st_size)
            if target in self._read and self._stamps.get(target) == stamp and self.is_of(self._read[target], log):
                return self._read[target]
            found = self._read[target] = self.open(target, log, self._read.get(target))
            self._stamps[target] = stamp
        except (DerivedFileError, OSError):
            self._read.pop(target, None)
            return None
        if self.is_whole(found, log) and target not in self._used_at:
            with contextlib.suppress(OSError):
                target.touch()  # recently used
                self._stamps.pop(target, None)
        return found

    def _mark_used(self, target: Path, known: T) -> None:
        """Insert an entry as the most recently used, and evict old entries from memory."""
        self._read.pop(target, None)
        self._read[target] = known
        for older in list(self._read)[:-MAX_READ]:
            del self._read[older]
            self._stamps.pop(older, None)

    def _begin(self, target: Path, log: TraceReader, run: OpenLog) -> None:
        fd = log.fileno() if log.path is None else None  # a log without a path is passed as descriptor
        follows = self.follows and isinstance(run.full_log, TraceWriter)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._drop_old()
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", self.program),
                    *(str(log.path) if fd is None else f"/dev/fd/{fd}", str(target)),
                    *(["--follow"] if follows else []),
                ],
                stdin=subprocess.PIPE if follows else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=child_environment(),
                pass_fds=() if fd is None else (fd,),
            )
        except OSError as error:
            self._failed[target] = error.strerror or str(error)
            return
        self._making[target] = process
        assert process.stdout is not None
        threading.Thread(target=self._read_messages, args=(target, process, process.stdout), daemon=True).start()

    def _until_over(self, target: Path, run: OpenLog) -> None:
        """Wait until the run has ended or is unused, and delete its files."""
        while not self._is_over and not run.is_over and time.monotonic() - self._used_at[target] < IDLE:
            time.sleep(CHECK_SECONDS)
        with self._lock:
            self._end(target)

    def _end(self, target: Path) -> None:
        """Stop building an index, and delete it if it is of a live run."""
        process = self._making.pop(target, None)
        if process is not None:
            process.terminate()
            process.wait()
        if target.name.startswith(LIVE):
            self._read.pop(target, None)
            self._stamps.pop(target, None)
            self._used_at.pop(target, None)
            for name in (target, target.with_suffix(self.data_suffix)):
                name.unlink(missing_ok=True)

    def _read_messages(self, target: Path, process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
        """Read a process's progress messages until it ends; the last may be its error."""
        why = "its process ended before it had read anything"
        with output:
            for line in output:
                with contextlib.suppress(ValueError):
                    found = json.loads(line)
                    why = found.get("error", why)
                    self._done[target] = found.get("num_records", 0)
        failed = process.wait() != 0
        with self._lock:
            if self._making.get(target) is process:
                del self._making[target]
                self._done.pop(target, None)
                if failed:
                    self._failed[target] = why

    def _drop_old(self) -> None:
        for path in self._folder.glob(f"{LIVE}*"):  # left behind by a server that was killed
            if time.time() - path.stat().st_mtime > 86_400:
                path.unlink(missing_ok=True)
        drop_unused(self._folder, self.suffix, self.data_suffix, set(self._making))


class LogIndexes(DerivedFiles[LogIndex]):
    """Log indexes of a server."""

    program = "engine.trace.log_index.make"
    suffix, data_suffix = ".survey", ".rows"
    follows = True
    failed = "the log cannot be indexed"

    def open(self, index: Path, log: TraceReader, known: LogIndex | None) -> LogIndex:
        return LogIndex(index, log, known)

    def is_of(self, made: LogIndex, log: TraceReader) -> bool:
        return made.is_of(log)

    def is_whole(self, made: LogIndex, log: TraceReader) -> bool:
        """Return whether the index covers the whole log, or ends at damage."""
        index = made.index
        return index.is_done and (bool(index.problem) or index.num_records == len(log))


SHARE = 10  # while a run is live, rebuild at most often enough to spend 1/SHARE of wall time on it
MIN_AGE = 60.0  # seconds between two rebuilds of a live run's tables, at least


class LogTables(DerivedFiles[CachedTables]):
    """Tables of a server's logs."""

    program = "engine.trace.query.make"
    suffix, data_suffix = SUFFIX, DATA
    follows = False
    failed = "no tables can be made of the log"

    def open(self, index: Path, log: TraceReader, known: CachedTables | None) -> CachedTables:
        return CachedTables(index, log)

    def is_of(self, made: CachedTables, log: TraceReader) -> bool:
        return made.is_of(log)

    def is_whole(self, made: CachedTables, log: TraceReader) -> bool:
        """Return whether the tables cover the log or, for a live run, were built recently."""
        index = made.index
        if index.problem or index.num_records == len(log):
            return True
        age = time.monotonic() - made.opened
        return isinstance(log, TraceWriter) and age < max(MIN_AGE, SHARE * index.seconds)
