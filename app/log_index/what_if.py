"""Effect of another pool size on a run: a separate process replays the run's requests for the page."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import IO, Any, NotRequired, TypedDict

from app.ground.errors import AppError, refuse
from app.session.run import OpenLog
from engine.system.host import child_environment
from engine.trace.log import TraceReader

MAX_JOBS = 16  # cached results
MAX_TIMES = 64.0  # factor of the pool size
FRESH = 5.0  # seconds for which the result of a live run is reused

Key = tuple[int, float]


class WhatIfAnswer(TypedDict):
    """Response of /api/theaters/<session_id>/what_if: progress of the replay, and its result once done."""

    done: float  # 0..1
    found: NotRequired[dict[str, Any]]  # `engine.simulate.what_if.WhatIf`


class _Job:
    """Replay that is running, done (`found` is set), or failed (`error` is set)."""

    def __init__(self, run: OpenLog, log: TraceReader, times: float) -> None:
        self.run, self.num_records, self.done, self.at = run, len(log), 0.0, 0.0
        self.found: dict[str, Any] | None = None
        self.error: str | None = None
        file = log.path if log.path is not None else Path(f"/dev/fd/{log.fileno()}")
        program = [sys.executable, "-m", "engine.simulate.what_if", str(file)]
        self.process = subprocess.Popen(
            [*program, "--times", repr(times), "--records", str(self.num_records)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=child_environment(),
            pass_fds=() if log.path is not None else (log.fileno(),),
        )
        assert self.process.stdout is not None
        threading.Thread(target=self._follow, args=(self.process.stdout,), daemon=True).start()

    def _follow(self, output: IO[bytes]) -> None:
        error = "its process ended without a result"
        with output:
            for line in output:
                with contextlib.suppress(ValueError):
                    message = json.loads(line)
                    self.done, error = message.get("done", self.done), message.get("error", error)
                    self.found = message.get("found", self.found)
        self.process.wait()
        self.error = None if self.found is not None else error
        self.at = time.monotonic()  # the next replay may begin


class WhatIfs:
    """Replays of a server, one at a time. All methods may be called on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: OrderedDict[Key, _Job] = OrderedDict()

    def answer(self, run: OpenLog, times: float) -> WhatIfAnswer:
        """Return the progress or result. Starts a replay on the first request, or if the run has grown.

        Raises:
            AppError: `busy`: another replay is running; `refused`: the log lacks information; `bad_request`.
        """
        if not 0 < times <= MAX_TIMES:
            raise AppError("bad_request", f"times must be above 0 and at most {MAX_TIMES:g}, got {times:g}")
        with run.reading() as log, self._lock:
            key = (id(run), times)
            job = self._jobs.get(key)
            if job is None or job.run is not run or self._is_old(job, log):
                if any(one.at == 0 for one in self._jobs.values()):
                    raise refuse("busy", "what_if.busy")
                job = self._jobs[key] = self._begin(run, log, times)
                while len(self._jobs) > MAX_JOBS:
                    self._jobs.popitem(last=False)
            self._jobs.move_to_end(key)
        if not job.at:
            return {"done": job.done}
        if job.found is None:
            raise AppError("refused", job.error or "")
        return {"done": 1.0, "found": job.found}

    def close(self) -> None:
        """End the running replay."""
        with self._lock:
            jobs, self._jobs = list(self._jobs.values()), OrderedDict()
        for job in jobs:
            if job.process.poll() is None:
                job.process.terminate()
                job.process.wait()

    def _is_old(self, job: _Job, log: TraceReader) -> bool:
        return job.at > 0 and job.num_records != len(log) and time.monotonic() - job.at > FRESH

    def _begin(self, run: OpenLog, log: TraceReader, times: float) -> _Job:
        if not len(log):
            raise refuse("refused", "log.empty")
        if log.path is None and not os.path.isdir("/dev/fd"):
            raise refuse("refused", "what_if.no_file")
        try:
            return _Job(run, log, times)
        except OSError as error:
            raise refuse("refused", "what_if.begin", reason=error.strerror or error) from error
