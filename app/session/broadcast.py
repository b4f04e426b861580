"""Broadcast of a session's log to its viewers, each at its own pace.

    engine thread --append--> log (file)          wake()
                               |                    |
                               +----- read ---- broadcast thread --emit--> viewers
                                                    ^                        |
                                                    +------ acknowledge -----+

Viewers at the same record are sent the same bytes: a batch is read and packed once. The unacknowledged bytes of a
viewer are bounded, and the server stores only its position in the log. So a slow viewer uses little memory, delays
neither the engine nor other viewers, and misses no record.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from app.ground.errors import AppError
from app.session.answers import Closed, Large, Records, Reset, Status
from app.session.closing import Closing
from app.session.run import OpenLog, is_large, read_batch

MAX_RECORDS = 256  # in a batch
MAX_BYTES = 1024 * 1024  # of records in a batch
MAX_CAPTURE_BYTES = 4 * 1024 * 1024  # in a batch
WINDOW = 1024 * 1024  # unacknowledged bytes at which a viewer is sent no further batch
ACK_BYTES = WINDOW // 4  # bytes after which an acknowledgement is requested
RECENT = 16  # newest records that are sent with captures; a viewer that is further behind gets none
PACE = 1 / 60  # seconds between two batches to one viewer: a frame of a display
SENDING_SHARE = 1 / 4  # maximum share of wall time spent sending; above it, batches become fewer and larger
SLOWEST_PACE = 0.5  # seconds
STATUS_PACE = 0.2  # seconds between two status messages if only counts change
STATUS_PACE_PER_VIEWER = 1 / 400  # seconds: at most 400 such messages a second

logger = logging.getLogger(__name__)


class Emit(Protocol):
    """Queue an event for clients; never blocks.

    `acknowledged` is called with the id of each client that received it, `sent` with the seconds until it was written
    to all clients that accept data.
    """

    def __call__(
        self,
        event: str,
        data: Mapping[str, Any],
        sids: Sequence[str],
        acknowledged: Callable[[str], None] | None = None,
        sent: Callable[[float], None] | None = None,
    ) -> None: ...


class Viewer:
    """Position of a client in the log. Changed only under the broadcast's lock."""

    def __init__(self, sid: str, run: OpenLog, first: int, captures: bool) -> None:
        self.sid = sid
        self.run = run
        self.next = first
        self.captures = captures
        self.in_windows = False  # the client fetches the records that it shows, so none are sent
        self.knows_large = False  # the `large` event was sent
        self.join_acknowledged = False  # the acknowledgement of the join is queued, so records may follow
        self.sent = 0  # bytes of records and captures
        self.requested = 0  # bytes sent up to the last requested acknowledgement
        self.acknowledged = 0  # bytes acknowledged
        self.sent_at = 0.0
        self.status: Status | None = None  # last status sent

    def has_room(self, end: int) -> bool:
        """Return whether the window allows another batch of the log's `end` records."""
        return not self.in_windows and self.next < end and self.sent - self.acknowledged < WINDOW


class Broadcast:
    """Viewers of one session, and the thread that serves them."""

    def __init__(self, session_id: str, emit: Emit, status: Callable[[], Status]) -> None:
        """Start the thread. `status` returns the status to send; it is called on the broadcast thread."""
        self._session_id = session_id
        self._emit = emit
        self._status = status
        self._viewers: dict[str, Viewer] = {}
        self._lock = threading.Lock()
        self._sending = threading.Lock()  # held while records are sent; never together with another broadcast's
        self._wake = threading.Event()
        self._closed = False
        self._run: OpenLog | None = None
        self._status_at = 0.0
        self._pace = PACE  # seconds between two batches to one viewer
        self._thread = threading.Thread(target=self._serve, name=f"broadcast-{session_id}", daemon=True)
        self._thread.start()

    @property
    def num_viewers(self) -> int:
        return len(self._viewers)

    def wake(self) -> None:
        """Wake the thread to send new records. Called on the engine thread after each append; no-op without viewers."""
        if (self._viewers or self._closed) and not self._wake.is_set():
            self._wake.set()

    def follow(self, run: OpenLog) -> None:
        """Switch to a new run. Every viewer is notified and gets its records from 0."""
        with self._lock:
            self._run = run
        self.wake()

    def join(self, sid: str, run: OpenLog, first: int, captures: bool, in_windows: bool = False) -> Callable[[], None]:
        """Serve `sid` from record `first` of `run`. Returns a callback to call when the acknowledgement is queued.

        With `in_windows`, only the status is sent until another run begins. If `sid` joins again, no batch from its
        earlier position is sent after this returns.
        """
        viewer = Viewer(sid, run, first, captures)
        viewer.in_windows = viewer.knows_large = in_windows
        with self._lock:
            self._viewers[sid] = viewer
        with self._sending:
            pass  # wait until a batch from the earlier position is sent

        def on_acknowledged() -> None:
            viewer.join_acknowledged = True
            self.wake()

        return on_acknowledged

    def leave(self, sid: str) -> bool:
        """Stop serving `sid`. Returns whether it was a viewer."""
        with self._lock:
            found = self._viewers.pop(sid, None) is not None
        if found:
            self.wake()
        return found

    def close(self, why: Closing) -> None:
        """Notify all viewers and end the thread."""
        with self._lock:
            viewers, self._viewers = list(self._viewers), {}
            self._closed = True
        if viewers:
            message: Closed = {
                "theater": self._session_id,
                "cause": why.cause,
                "detail": why.detail,
                "reason": str(why),
            }
            self._emit("closed", message, viewers)
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
                logger.exception("broadcast of session %s", self._session_id)
                delay = 1.0

    def _round(self) -> float | None:
        """Send all due messages. Returns the seconds until the next one is due, or None if there is none."""
        with self._lock:
            run, viewers = self._run, [viewer for viewer in self._viewers.values() if viewer.join_acknowledged]
        if run is None or not viewers:
            return None
        now, status = time.monotonic(), self._status()
        self._restart([viewer for viewer in viewers if viewer.run is not run], run)
        self._notify_large([viewer for viewer in viewers if not viewer.knows_large], run)
        delays = [self._send_records(viewers, run, now), self._send_status(viewers, status, now)]
        return min((delay for delay in delays if delay is not None), default=None)

    def _restart(self, viewers: list[Viewer], run: OpenLog) -> None:
        if not viewers:
            return
        with self._lock:
            for viewer in viewers:
                viewer.run, viewer.next, viewer.sent_at = run, 0, 0.0
                viewer.sent = viewer.requested = viewer.acknowledged = 0
                viewer.in_windows = viewer.knows_large = False
        message: Reset = {
            "theater": self._session_id,
            "epoch": run.epoch,
            "header": run.header,
            "num_records": len(run.log),
        }
        self._emit("reset", message, [viewer.sid for viewer in viewers])

    def _notify_large(self, viewers: list[Viewer], run: OpenLog) -> None:
        """Notify viewers that the run is too long for a page. A client that supports windows joins again."""
        if not viewers or run.is_held_back or not is_large(run.log):
            return
        for viewer in viewers:
            viewer.knows_large = True
        message: Large = {"theater": self._session_id, "epoch": run.epoch, "num_records": len(run.log)}
        self._emit("large", message, [viewer.sid for viewer in viewers])

    def _send_records(self, viewers: list[Viewer], run: OpenLog, now: float) -> float | None:
        """Send a batch to each viewer below its window. Viewers at the same record are one group."""
        end = len(run.log)
        groups: dict[tuple[int, bool], list[Viewer]] = {}
        for viewer in viewers:
            if viewer.has_room(end) and viewer.sent_at + self._pace <= now:
                groups.setdefault((viewer.next, viewer.captures), []).append(viewer)
        try:
            for (first, captures), group in groups.items():
                self._send_batch(group, run, first, end, captures, now)
        except AppError:
            return None  # the run was retired, and `follow` comes next
        return min((viewer.sent_at + self._pace - now for viewer in viewers if viewer.has_room(end)), default=None)

    def _send_batch(
        self, group: list[Viewer], run: OpenLog, first: int, end: int, with_captures: bool, now: float
    ) -> None:
        with run.reading() as log:
            captures_from = end - RECENT if with_captures else None
            last = min(end, first + MAX_RECORDS)
            records, captures = read_batch(log, first, last, MAX_BYTES, captures_from, MAX_CAPTURE_BYTES)
        message: Records = {
            "theater": self._session_id,
            "epoch": run.epoch,
            "first": first,
            "records": records,
            "captures": captures,
        }
        size = sum(map(len, records)) + sum(len(capture) for capture in captures if capture)
        with self._sending:
            with self._lock:
                # drop viewers that left or joined again since this round began
                group = [viewer for viewer in group if self._viewers.get(viewer.sid) is viewer]
                for viewer in group:
                    viewer.next += len(records)
                    viewer.sent += size
                    viewer.sent_at = now
                needs_ack = any(viewer.sent - viewer.requested >= ACK_BYTES for viewer in group)
                if needs_ack:
                    for viewer in group:
                        viewer.requested = viewer.sent
                marks = {viewer.sid: (viewer, run, viewer.sent) for viewer in group}
            if group:
                acknowledged = (lambda sid: self._acknowledged(*marks[sid])) if needs_ack else None
                self._emit("records", message, list(marks), acknowledged, self._was_sent)

    def _send_status(self, viewers: list[Viewer], status: Status, now: float) -> float | None:
        pace = max(STATUS_PACE, STATUS_PACE_PER_VIEWER * len(viewers), self._pace)
        outdated = [viewer for viewer in viewers if viewer.status != status]
        due = outdated
        if now < self._status_at + pace:
            due = [viewer for viewer in outdated if _without_counts(viewer.status) != _without_counts(status)]
        if due:
            self._emit("status", status, [viewer.sid for viewer in due])
            for viewer in due:
                viewer.status = status
        if len(due) == len(outdated):
            self._status_at = now
        return self._status_at + pace - now if len(due) < len(outdated) else None

    def _was_sent(self, seconds: float) -> None:
        """Adapt the pace to the duration of sending, because sending takes time from the engine."""
        self._pace = min(max(PACE, seconds / SENDING_SHARE), SLOWEST_PACE)

    def _acknowledged(self, viewer: Viewer, run: OpenLog, sent: int) -> None:
        with self._lock:
            if viewer.run is not run:
                return  # the batch is from before a reset
            viewer.acknowledged = max(viewer.acknowledged, sent)
        self.wake()


def _without_counts(status: Status | None) -> dict[str, Any] | None:
    """Return a status without the counts that change with every record or viewer."""
    return status and {k: v for k, v in status.items() if k not in ("num_records", "unfinished", "viewers")}
