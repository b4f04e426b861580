"""Surveys of logs that are too long to be sent whole: made beside the server, kept in its data folder.

That of a run that goes on is written by a process that reads on as the log grows, while somebody looks at it; it goes
with the run.

What is kept may be deleted at any time. It is looked at when it is used: one that is damaged, or of another log, is
made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO
from uuid import uuid4
from weakref import WeakKeyDictionary

from app.errors import AppError
from app.run import OpenLog
from engine.trace.log import TraceReader, TraceWriter
from engine.trace.survey.stored import SurveyError
from engine.trace.survey.survey import Survey

MOST_RECORDS = 20_000  # of a log that a page reads whole
MOST_BYTES = 64 << 20  # of its records: arrays are only sent as they are shown
IDLE = 600.0  # seconds after which nobody looks at a run that goes on any more
LOOK = 1.0  # seconds between two looks at whether it does
LIVE = "live-"  # so begin the names of surveys of runs that go on
MOST_KEPT = 16  # surveys in the data folder; beyond that those unused for longest go


def is_large(log: TraceReader, first: int = 0) -> bool:
    """Whether a page that has its first `first` records is told about the log in pieces, and never takes the rest."""
    return len(log) - first > MOST_RECORDS or log.record_bytes_from(first) > MOST_BYTES


def _is_whole(survey: Survey, log: TraceReader) -> bool:
    """Whether it knows all that there is to know; a log may have grown since it was surveyed."""
    index = survey.index
    return index.is_done and survey.is_of(log) and (bool(index.problem) or index.num_records == len(log))


class Surveys:
    """The surveys of a server. Every method may be called from any thread."""

    def __init__(self, data_dir: Path | None) -> None:
        """None: they are kept in a folder that goes with the server."""
        self._temporary = tempfile.TemporaryDirectory(prefix="kvtheater-surveys-") if data_dir is None else None
        self._folder = Path(self._temporary.name) if self._temporary else (data_dir or Path()) / "surveys"
        self._lock = threading.Lock()
        self._making: dict[Path, subprocess.Popen[bytes]] = {}
        self._read: dict[Path, Survey] = {}
        self._stamps: dict[Path, tuple[int, int]] = {}  # of the files that were read
        self._asked: dict[Path, float] = {}  # when, of those that grow
        self._names: WeakKeyDictionary[OpenLog, Path] = WeakKeyDictionary()  # of runs that go on
        self._failed: dict[Path, str] = {}

    def survey(self, run: OpenLog) -> Survey:
        """What is known of a run so far. Where nothing is, it begins to be made.

        Raises:
            AppError: `loading`: nothing is known yet, ask again; `refused`: it cannot be made.
        """
        with run.reading() as log:
            if run.is_held_back:
                raise AppError("refused", "of this run no more is told than is shown")
            grows = isinstance(run.whole, TraceWriter)
            with self._lock:
                target = self._target(run, log)
                self._asked[target] = time.monotonic()
                known = self._read.get(target)
                if known is not None and _is_whole(known, log):
                    return known
                found = self._look(target, log)
                if (found is None or not _is_whole(found, log)) and target not in self._making:
                    self._begin(target, log, run if grows else None)
                if found is not None:
                    return found
                if why := self._failed.get(target):
                    raise AppError("refused", f"the log cannot be surveyed: {why}")
        raise AppError("loading", "the log is being read for the first time; ask again in a moment")

    def forget(self, run: OpenLog) -> None:
        """Its survey turned out to be damaged: it is made anew."""
        with run.reading() as log, self._lock:
            for target, known in list(self._read.items()):
                if known.is_of(log):
                    del self._read[target]
                    target.unlink(missing_ok=True)

    def close(self) -> None:
        """End what is being made."""
        with self._lock:
            making, self._making = list(self._making.values()), {}
        for process in making:
            process.terminate()
            process.wait()
        for target in list(self._names.values()):
            target.unlink(missing_ok=True)
            target.with_suffix(".rows").unlink(missing_ok=True)
        if self._temporary is not None:
            self._temporary.cleanup()

    def _target(self, run: OpenLog, log: TraceReader) -> Path:
        """Where the survey of a run lies."""
        if isinstance(run.whole, TraceWriter):
            return self._names.setdefault(run, self._folder / f"{LIVE}{uuid4().hex}.survey")
        if log.path is None:
            raise AppError("refused", "this run has no file that could be surveyed")
        return self._folder / f"{hashlib.sha256(os.fsencode(log.path.resolve())).hexdigest()[:24]}.survey"

    def _look(self, target: Path, log: TraceReader) -> Survey | None:
        try:
            file = target.stat()
            stamp = (file.st_mtime_ns, file.st_ino)
            if target in self._read and self._stamps.get(target) == stamp and self._read[target].is_of(log):
                return self._read[target]
            found = self._read[target] = Survey(target, log)
            self._stamps[target] = stamp
        except (SurveyError, OSError):
            self._read.pop(target, None)
            return None
        if found.index.is_done:
            with contextlib.suppress(OSError):
                target.touch()  # used now: others are dropped before it
                self._stamps.pop(target, None)
        return found

    def _begin(self, target: Path, log: TraceReader, grows: OpenLog | None) -> None:
        """`grows`: the run, where it goes on."""
        self._failed.pop(target, None)
        fd = log.fileno() if log.path is None else None  # a file without a name
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._drop_old()
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "engine.trace.survey.make"),
                    *(str(log.path) if fd is None else f"/dev/fd/{fd}", str(target)),
                    *(["--follow"] if grows else []),
                ],
                stdin=subprocess.PIPE if grows else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=Path(__file__).parents[1],
                pass_fds=() if fd is None else (fd,),
            )
        except OSError as error:
            self._failed[target] = error.strerror or str(error)
            return
        self._making[target] = process
        assert process.stdout is not None
        threading.Thread(target=self._follow, args=(target, process, process.stdout), daemon=True).start()
        if grows is not None:
            threading.Thread(target=self._until_over, args=(target, process, grows), daemon=True).start()

    def _until_over(self, target: Path, process: subprocess.Popen[bytes], run: OpenLog) -> None:
        """Let it read on while the run goes on and somebody looks; then its files go."""
        while process.poll() is None and not run.is_over and time.monotonic() - self._asked[target] < IDLE:
            time.sleep(LOOK)
        assert process.stdin is not None
        process.stdin.close()  # it ends
        process.wait()
        with self._lock:
            self._read.pop(target, None)
            for name in (target, target.with_suffix(".rows")):
                name.unlink(missing_ok=True)

    def _follow(self, target: Path, process: subprocess.Popen[bytes], said: IO[bytes]) -> None:
        """Until it has ended: what it says last may be why."""
        why = "it ended before it had read anything"
        with said:
            for line in said:
                with contextlib.suppress(ValueError):
                    why = json.loads(line).get("error", why)
        failed = process.wait() != 0
        with self._lock:
            if self._making.pop(target, None) is not None and failed:
                self._failed[target] = why

    def _drop_old(self) -> None:
        for path in self._folder.glob(f"{LIVE}*"):  # of a server that was killed
            if time.time() - path.stat().st_mtime > 86_400:
                path.unlink(missing_ok=True)
        found = (path for path in self._folder.glob("*.survey") if not path.name.startswith(LIVE))
        kept = sorted(found, key=lambda path: path.stat().st_mtime)
        for path in kept[: max(0, len(kept) + 1 - MOST_KEPT)]:
            if path not in self._making:
                path.unlink(missing_ok=True)
                path.with_suffix(".rows").unlink(missing_ok=True)
