"""From a theater's log to its viewers, each at its own pace.

    engine thread --append--> log (file)          wake()
                               |                    |
                               +----- read ---- broadcast thread --emit--> viewer
                                                    ^                        |
                                                    +------ acknowledge -----+

A viewer has at most one batch of records on its way; the next is read from the log when it has acknowledged the last.
So a slow viewer costs one batch of memory, never delays the engine or another viewer, and misses nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from app.errors import AppError
from app.run import OpenLog, read_batch

MAX_RECORDS = 256  # in a batch
MAX_BYTES = 1024 * 1024  # of records in a batch
MAX_CAPTURE_BYTES = 4 * 1024 * 1024  # in a batch
RECENT = 16  # captures go along for so many of the newest records; a viewer further behind catches up without them
PACE = 1 / 60  # seconds between two batches to one viewer: more often cannot be seen and takes time from the engine
STATUS_PACE = 0.2  # seconds between two status messages while nothing but the number of records changes
ACK_OF_JOIN = 0.005  # seconds between two looks whether the acknowledgement of a join is out

logger = logging.getLogger(__name__)


class Emit(Protocol):
    """Queue an event for one client; never blocks. `acknowledged` is called when the client has it."""

    def __call__(
        self, event: str, data: dict[str, Any], sid: str, acknowledged: Callable[[], None] | None = None
    ) -> None: ...


class Viewer:
    """How far one client has got. Changed only under the broadcast's lock."""

    def __init__(self, sid: str, run: OpenLog, first: int, captures: bool, joined_by: threading.Thread) -> None:
        self.sid = sid
        self.run = run
        self.next = first
        self.captures = captures
        self.joined_by: threading.Thread | None = joined_by  # its handler; the acknowledgement is out when it ends
        self.in_flight: object | None = None  # names the batch on its way, so that a late acknowledgement is told apart
        self.sent_at = 0.0
        self.status: dict[str, Any] | None = None  # as last sent


class Broadcast:
    """The viewers of one theater and the thread that serves them."""

    def __init__(self, theater_id: str, emit: Emit, status: Callable[[], dict[str, Any]]) -> None:
        """`status` gives the status to send; it is called on the broadcast thread."""
        self._theater_id = theater_id
        self._emit = emit
        self._status = status
        self._viewers: dict[str, Viewer] = {}
        self._lock = threading.Lock()
        self._sending = threading.Lock()  # held while records go out; nobody who holds it waits for another broadcast's
        self._wake = threading.Event()
        self._closed = False
        self._run: OpenLog | None = None
        self._status_at = 0.0
        self._thread = threading.Thread(target=self._serve, name=f"broadcast-{theater_id}", daemon=True)
        self._thread.start()

    @property
    def num_viewers(self) -> int:
        return len(self._viewers)

    def wake(self) -> None:
        """Something may be there to send. Cheap: called on the engine thread after each append."""
        if not self._wake.is_set():
            self._wake.set()

    def follow(self, run: OpenLog) -> None:
        """Switch to a new run; every viewer is told of it and gets its records from 0."""
        with self._lock:
            self._run = run
        self.wake()

    def join(self, sid: str, run: OpenLog, first: int, captures: bool) -> None:
        """Serve `sid` from record `first` of `run` on, as soon as the calling thread (its event handler) has ended.

        Whoever joins again gets nothing more of what it was served before, once this returns.
        """
        with self._lock:
            self._viewers[sid] = Viewer(sid, run, first, captures, threading.current_thread())
        with self._sending:
            pass  # a batch for the viewer that it was is out
        self.wake()

    def leave(self, sid: str) -> bool:
        """Serve it no more; whether it was a viewer."""
        with self._lock:
            found = self._viewers.pop(sid, None) is not None
        self.wake()
        return found

    def close(self, reason: str) -> None:
        """Tell every viewer and end the thread."""
        with self._lock:
            viewers, self._viewers = list(self._viewers), {}
            self._closed = True
        for sid in viewers:
            self._emit("closed", {"theater": self._theater_id, "reason": reason}, sid)
        self.wake()

    def _serve(self) -> None:
        delay: float | None = None
        while True:
            self._wake.wait(delay)
            self._wake.clear()
            if self._closed:
                return
            try:
                delay = self._round()
            except Exception:
                logger.exception("broadcast of theater %s", self._theater_id)
                delay = 1.0

    def _round(self) -> float | None:
        """Send each viewer what is due. Returns the seconds after which something else will be due, None for never."""
        with self._lock:
            run, viewers = self._run, list(self._viewers.values())
        if run is None or not viewers:
            return None
        now = time.monotonic()
        status, status_due = self._status(), now >= self._status_at + STATUS_PACE
        delays: list[float] = []
        for viewer in viewers:
            if viewer.joined_by is not None:
                if viewer.joined_by.is_alive():
                    delays.append(ACK_OF_JOIN)
                    continue
                viewer.joined_by = None
            if viewer.run is not run:
                self._restart(viewer, run)
            delay = self._send_records(viewer, run, now)
            if delay is not None:
                delays.append(delay)
            if viewer.status != status:
                if status_due or _calm(viewer.status) != _calm(status):
                    self._emit("status", status, viewer.sid)
                    viewer.status, self._status_at = status, now
                else:
                    delays.append(self._status_at + STATUS_PACE - now)
        return min(delays, default=None)

    def _restart(self, viewer: Viewer, run: OpenLog) -> None:
        with self._lock:
            viewer.run, viewer.next, viewer.in_flight, viewer.sent_at = run, 0, None, 0.0
        message = {"theater": self._theater_id, "epoch": run.epoch, "header": run.header, "num_records": len(run.log)}
        self._emit("reset", message, viewer.sid)

    def _send_records(self, viewer: Viewer, run: OpenLog, now: float) -> float | None:
        if viewer.in_flight is not None or viewer.next >= len(run.log):
            return None
        early = viewer.sent_at + PACE - now
        if early > 0:
            return early
        try:
            with run.reading() as log:
                end = len(log)
                captures_from = end - RECENT if viewer.captures else None
                records, captures = read_batch(
                    log, viewer.next, min(end, viewer.next + MAX_RECORDS), MAX_BYTES, captures_from, MAX_CAPTURE_BYTES
                )
        except AppError:
            return None  # just retired: `follow` comes next
        batch = object()
        message = {
            "theater": self._theater_id,
            "epoch": run.epoch,
            "first": viewer.next,
            "records": records,
            "captures": captures,
        }
        with self._sending:
            with self._lock:
                if self._viewers.get(viewer.sid) is not viewer:
                    return None  # it has left, or joined again, since this round began
                viewer.in_flight, viewer.sent_at = batch, now
                viewer.next += len(records)
            self._emit("records", message, viewer.sid, lambda: self._acknowledged(viewer, batch))
        return None

    def _acknowledged(self, viewer: Viewer, batch: object) -> None:
        with self._lock:
            if viewer.in_flight is not batch:
                return  # of a batch before a reset
            viewer.in_flight = None
        self.wake()


def _calm(status: dict[str, Any] | None) -> dict[str, Any] | None:
    """A status without what changes at every record."""
    return status and {k: v for k, v in status.items() if k not in ("num_records", "unfinished")}
