"""Surveys of logs that are too long to be sent whole: made beside the server, kept in its data folder.

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
from pathlib import Path
from typing import IO

from app.errors import AppError
from app.run import OpenLog
from engine.trace.log import TraceReader
from engine.trace.survey.stored import SurveyError
from engine.trace.survey.survey import Survey

MOST_RECORDS = 20_000  # of a log that a page reads whole
MOST_BYTES = 64 << 20  # of its records: arrays are only sent as they are shown
MOST_KEPT = 16  # surveys in the data folder; beyond that those unused for longest go


def is_large(log: TraceReader) -> bool:
    """Whether a page is told about the log in pieces, and never takes all of it."""
    return len(log) > MOST_RECORDS or log.all_record_bytes > MOST_BYTES


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
        self._failed: dict[Path, str] = {}

    def survey(self, run: OpenLog) -> Survey:
        """What is known of a run so far. Where nothing is, it begins to be made.

        Raises:
            AppError: `loading`: nothing is known yet, ask again; `refused`: it cannot be made.
        """
        with run.reading() as log:
            if log.path is None:
                raise AppError("refused", "this run has no file that could be surveyed")
            target = self._folder / f"{hashlib.sha256(os.fsencode(log.path.resolve())).hexdigest()[:24]}.survey"
            with self._lock:
                known = self._read.get(target)
                if known is not None and _is_whole(known, log):
                    return known
                found = self._look(target, log)
                if (found is None or not _is_whole(found, log)) and target not in self._making:
                    self._begin(target, log.path)
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
        if self._temporary is not None:
            self._temporary.cleanup()

    def _look(self, target: Path, log: TraceReader) -> Survey | None:
        try:
            found = self._read[target] = Survey(target, log)
        except SurveyError:
            self._read.pop(target, None)
            return None
        if found.index.is_done:
            with contextlib.suppress(OSError):
                target.touch()  # used now: others are dropped before it
        return found

    def _begin(self, target: Path, path: Path) -> None:
        self._failed.pop(target, None)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._drop_old()
            process = subprocess.Popen(
                [sys.executable, "-m", "engine.trace.survey.make", str(path), str(target)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=Path(__file__).parents[1],
            )
        except OSError as error:
            self._failed[target] = error.strerror or str(error)
            return
        self._making[target] = process
        assert process.stdout is not None
        threading.Thread(target=self._follow, args=(target, process, process.stdout), daemon=True).start()

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
        kept = sorted(self._folder.glob("*.survey"), key=lambda path: path.stat().st_mtime)
        for path in kept[: max(0, len(kept) + 1 - MOST_KEPT)]:
            if path not in self._making:
                path.unlink(missing_ok=True)
                path.with_suffix(".rows").unlink(missing_ok=True)
