"""Benchmark runs of a server, one at a time, in a separate process. Their progress is sent to subscribed clients."""

from __future__ import annotations

import contextlib
import itertools
import logging
import shutil
import subprocess
import sys
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from app.bench.watch import PREFIX, BenchSession, latest_trace
from app.bench.worker import TRACES, Order
from app.ground.errors import AppError, app_sentence, refuse
from app.session.broadcast import Emit
from app.session.closing import Closing
from engine.bench.scenario import scenario_ids
from engine.system.host import child_environment
from engine.trace.codec import TraceFormatError

ROOT = Path(__file__).resolve().parents[2]
logger = logging.getLogger(__name__)

State = Literal["idle", "running", "stopping", "done", "failed"]


class RunStatus(Struct, frozen=True, kw_only=True):
    """Status of the latest run, with the fields of the runner's `Progress`."""

    state: State = "idle"
    run: str = ""  # id of its record, once written
    session: str = field(name="theater", default="")  # session id for watching it, once it has a trace
    scenario: str = ""
    started: str = ""
    phase: str = "starting"
    round: int = 0
    rounds: int = 0
    at: int | float | str | None = None
    variant: str = ""
    done: int = 0
    total: int = 0
    seconds_left: float | None = None
    error: str = ""  # sentence about the reason of a failure


class BenchRuns:
    """Runs benchmarks, one at a time. Thread-safe."""

    what = app_sentence("what.bench")

    def __init__(self, data_dir: Path | None, emit: Emit, live: bool) -> None:
        """`data_dir` None: records are deleted when the server ends. `live`: whether the server has a model."""
        self._temporary = tempfile.TemporaryDirectory(prefix="kvtheater-bench-") if data_dir is None else None
        self.folder = Path(self._temporary.name) if self._temporary else data_dir / "bench"  # type: ignore[operator]
        self.can_run, self.keeps_records = live, data_dir is not None
        self._emit = emit
        self._followers: set[str] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._running: Path | None = None  # folder of the run
        self._watch: BenchSession | None = None
        self._lock = threading.Lock()
        self._closed = False
        self.status = RunStatus()

    def follow(self, sid: str) -> RunStatus:
        """Subscribe `sid` to changes. Returns the current status."""
        self._followers.add(sid)
        return self.status

    def forget_viewer(self, sid: str) -> None:
        """Unsubscribe a disconnected client. The run continues."""
        self._followers.discard(sid)
        if watch := self._watch:
            watch.leave(sid)

    def owns(self, session_id: str) -> bool:
        return session_id.startswith(PREFIX)

    def get(self, session_id: str) -> BenchSession:
        """Return the session of the run, opened on first use.

        Raises:
            AppError: `unknown_theater`: the run is over, or has no trace yet.
        """
        with self._lock:
            if self._running is not None and session_id == PREFIX + self._running.name:
                first = latest_trace(self._running / TRACES)
                if self._watch is None and first is not None:
                    with contextlib.suppress(TraceFormatError, OSError):  # the header is not written yet
                        self._watch = BenchSession(session_id, first, self._emit)
                if self._watch is not None:
                    return self._watch
        raise refuse("unknown_theater", "bench.none")

    def start(self, scenario: str, rounds: int | None, quiet_seconds: float) -> RunStatus:
        """Start a run.

        Raises:
            AppError: `busy`: a run is active; `bad_request`: unknown scenario; `refused`: the server has no model.
        """
        if not self.can_run:
            raise refuse("refused", "model.none")
        if scenario not in scenario_ids():
            raise AppError("bad_request", f"there is no scenario {scenario[:60]!r}")
        with self._lock:
            if self._process is not None or self._closed:
                raise refuse("busy", "bench.running", scenario=self.status.scenario)
            now = datetime.now(UTC)
            try:
                folder = self._new_folder(f"{now:%Y%m%dT%H%M%SZ}-{scenario}")
                order = Order(scenario=scenario, folder=str(folder), rounds=rounds, quiet_seconds=quiet_seconds)
                process = subprocess.Popen(
                    [sys.executable, "-m", "app.bench.worker", msgspec.json.encode(order).decode()],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    cwd=ROOT,
                    env=child_environment(),
                )
            except OSError as error:
                raise refuse("refused", "bench.begin", reason=error.strerror or error) from error
            self._process, self._running = process, folder
            self._change(RunStatus(state="running", scenario=scenario, started=now.isoformat(timespec="seconds")))
            self._thread = threading.Thread(target=self._read, args=(process, folder), name="bench", daemon=True)
            self._thread.start()
        return self.status

    def stop(self) -> RunStatus:
        """Stop the run after the current step. Complete rounds are saved. No-op without a run."""
        with self._lock:
            if self._process is not None:
                self._end_input(self._process)
                self._change(msgspec.structs.replace(self.status, state="stopping"))
        return self.status

    def close(self, why: Closing) -> None:
        """Stop the run, since the server ends."""
        with self._lock:
            self._closed = True
            process, thread = self._process, self._thread
        if process is not None:
            self._end_input(process)
            process.terminate()
        if thread is not None:
            thread.join()
        if self._temporary is not None:
            self._temporary.cleanup()

    def _new_folder(self, name: str) -> Path:
        """Create a folder with a unique name, since another run or server may start a run in the same second."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for number in itertools.count(1):
            folder = self.folder / (name if number == 1 else f"{name}-{number}")
            with contextlib.suppress(FileExistsError):
                folder.mkdir()
                return folder
        raise AssertionError("unreachable")

    def _read(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        """Read the worker's messages until it ends."""
        assert process.stdout is not None
        end: dict[str, Any] = {"failed": "it ended without a result; the server's terminal may have the error"}
        for line in process.stdout:
            try:
                message = msgspec.json.decode(line, type=dict[str, Any])
            except msgspec.DecodeError:
                logger.warning("unexpected output of a benchmark: %r", line[:200])
                continue
            if "record" in message or "failed" in message:
                end = message
                continue
            with self._lock:
                fields = {name: message[name] for name in RunStatus.__struct_fields__ if name in message}
                if latest_trace(folder / TRACES) is not None:
                    fields["session"] = PREFIX + folder.name
                self._change(msgspec.structs.replace(self.status, **fields))
        process.wait()
        self._end_input(process)
        process.stdout.close()
        if "failed" in end:
            shutil.rmtree(folder, ignore_errors=True)
        with self._lock:
            self._process, self._running = None, None
            watch, self._watch = self._watch, None
        if watch is not None:
            watch.close(Closing("over"))
        with self._lock:
            status = msgspec.structs.replace(self.status, session="")
            if "failed" in end:
                self._change(msgspec.structs.replace(status, state="failed", error=end["failed"]))
            else:
                self._change(msgspec.structs.replace(status, state="done", run=f"here-{folder.name}"))

    def _change(self, status: RunStatus) -> None:
        self.status = status
        message = msgspec.to_builtins(status)
        for sid in tuple(self._followers):
            self._emit("bench_progress", message, [sid])

    @staticmethod
    def _end_input(process: subprocess.Popen[bytes]) -> None:
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
