"""Session of a running benchmark, whose log is the trace that the benchmark's process is writing."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from pathlib import Path

from app.session.broadcast import Emit
from app.session.closing import Closing
from app.session.log_session import LogSession
from app.session.run import OpenLog
from engine.trace import codec
from engine.trace.codec import TraceFormatError
from engine.trace.log import TraceReader

PREFIX = "bench-"
POLL_SECONDS = 0.1  # between checks of the files
logger = logging.getLogger(__name__)


class GrowingTrace(TraceReader):
    """Trace that another process is writing. `refresh` reads new frames."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, verify=False)
        self.damage = None  # an incomplete last frame is not damage here
        frames = [self._header_frame, *self._records, *self._captures.values(), *self._keyframes.values()]
        self._next: int = max(found.offset + found.length for found in frames)

    def refresh(self) -> bool:
        """Index the frames written since the last call. Returns whether there were any."""
        fd = self._file.fileno()
        size, before = os.fstat(fd).st_size, self._next
        while self._next < size:
            try:
                head = os.pread(fd, codec.FRAME_OVERHEAD, self._next)
                found = codec.parse_frame_head(head, self._next, size)
                self._index_frame(found, verify=False)
            except TraceFormatError:
                break  # a partial frame
            self._next = found.offset + found.length
        return self._next > before


class BenchSession(LogSession):
    """Read-only session of the newest trace of a folder. Each new trace begins a new epoch."""

    def __init__(self, session_id: str, first: Path, emit: Emit) -> None:
        """`first`: a trace with a complete header. Raises TraceFormatError or OSError if it cannot be read."""
        self._folder, self._path = first.parent, first
        self._trace = GrowingTrace(first)
        super().__init__(session_id, OpenLog(0, self._trace), emit)
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._poll, name=session_id, daemon=True)
        self._thread.start()

    def close(self, why: Closing) -> None:
        """Stop polling and notify the viewers. Waits for running reads."""
        self._is_closed.set()
        self._thread.join()
        super().close(why)

    def _poll(self) -> None:
        while not self._is_closed.wait(POLL_SECONDS):
            if self._trace.refresh():
                self.wake()
            latest = latest_trace(self._folder)
            if latest is not None and latest != self._path:
                with contextlib.suppress(TraceFormatError, OSError):  # the header is not written yet
                    trace = GrowingTrace(latest)
                    self._path, self._trace = latest, trace
                    self.switch_to(OpenLog(self.run.epoch + 1, trace))


def latest_trace(folder: Path) -> Path | None:
    """Return the newest trace of a folder, or None."""
    try:
        with os.scandir(folder) as found:
            files = [(entry.stat().st_ctime_ns, entry.path) for entry in found if entry.name.endswith(".kvtrace")]
    except OSError:
        return None
    return Path(max(files)[1]) if files else None
