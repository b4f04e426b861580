"""Runs of a session: an engine and its log, which any number of threads may read."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from app.ground.errors import AppError, refuse
from app.models.engine_face import EngineLike
from app.models.registry import Lease
from app.session.answers import Joined, Status
from app.session.summary import Summary, summary_of
from engine.config import EngineConfig
from engine.trace.log import TraceReader, TraceWriter
from engine.trace.shown_log import ShownLog


class OpenLog:
    """Log that any number of threads can read. After it is retired, its last reader closes it.

    `log` is the visible part. A lesson hides the records that answer an open question. `full_log` includes them and is
    only for the owner of the run.
    """

    def __init__(self, epoch: int, log: TraceReader) -> None:
        self.epoch = epoch
        self.full_log: TraceReader = log
        self._shown: ShownLog | None = None
        self.header: bytes = log.header_bytes
        self._lock = threading.Lock()
        self._readers = 0
        self._retired = False
        self._summary: Summary | None = None

    @property
    def log(self) -> TraceReader:
        """The visible part of the log."""
        shown = self._shown
        return self.full_log if shown is None else shown

    @property
    def is_over(self) -> bool:
        """Whether the log is complete: nothing more is appended."""
        return self._retired

    @property
    def is_held_back(self) -> bool:
        """Whether records may be hidden."""
        return self._shown is not None

    def hold_back(self, count: int | None) -> None:
        """Show only the first `count` records, or all if `count` is None."""
        self._shown = None if count is None else ShownLog(self.full_log, count)

    def shown_unfinished(self) -> int:
        """Return the number of unfinished sequences in the visible part; 0 if the run is over."""
        with contextlib.suppress(AppError), self.reading() as log:
            state = log.state_at(len(log) - 1)
            return len(state.waiting) + len(state.running)
        return 0

    @contextlib.contextmanager
    def reading(self) -> Iterator[TraceReader]:
        """Keep the log open within the context.

        Raises:
            AppError: `stale_epoch` if the run is over.
        """
        with self._lock:
            if self._retired:
                raise refuse("stale_epoch", "epoch.over", epoch=self.epoch)
            self._readers += 1
        try:
            yield self.log
        finally:
            with self._lock:
                self._readers -= 1
                last = self._retired and self._readers == 0
            if last:
                self._close()

    def summary(self) -> Summary:
        """Return the log's summary, cached until the log grows.

        Raises:
            AppError: `stale_epoch` when the run is over.
        """
        with self.reading() as log:
            known = self._summary
            if known is None or known.num_records != len(log):
                known = self._summary = summary_of(log)
            return known

    def retire(self) -> None:
        """Close the log after its last reader. Idempotent."""
        with self._lock:
            if self._retired:
                return
            self._retired = True
            last = self._readers == 0
        if last:
            self._close()

    def _close(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self.full_log.close()


class Run(OpenLog):
    """Engine and its log.

    A reset retires the run while viewers and downloads may still read its log. The engine and the lease of its model
    are closed immediately. The log, an unnamed file, stays open until its last reader is done.
    """

    full_log: TraceWriter

    def __init__(self, epoch: int, engine: EngineLike, lease: Lease | None = None) -> None:
        """Wrap an engine. The `lease` of its model is closed when the run is retired."""
        super().__init__(epoch, engine.log)
        self._engine: EngineLike | None = engine
        self.config: EngineConfig = engine.config  # resolved
        self.was_halted = True  # paused since the last record, so the interval does not count as latency
        self._lease = lease

    @property
    def engine(self) -> EngineLike:
        """Engine of the run.

        Raises:
            AppError: `stale_epoch` if the run is over.
        """
        if self._engine is None:
            raise refuse("stale_epoch", "epoch.over", epoch=self.epoch)
        return self._engine

    def retire(self) -> None:
        """Close the engine and the lease; the log stays open for its readers. Idempotent."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.release()
        super().retire()
        if self._lease is not None:
            self._lease.close()


def read_batch(
    log: TraceReader, first: int, end: int, max_bytes: int, captures_from: int | None, max_capture_bytes: int
) -> tuple[list[bytes], list[bytes | None]]:
    """Return the encoded records from [first, end) that fit `max_bytes`, at least one, and their captures.

    Captures are returned for records from `captures_from` on (None: none), newest first until `max_capture_bytes` is
    reached. The captures of all other records are None.
    """
    records: list[bytes] = []
    size = 0
    for index in range(first, end):
        payload = log.record_bytes(index)
        size += len(payload)
        if records and size > max_bytes:
            break
        records.append(payload)
    captures: list[bytes | None] = [None] * len(records)
    if captures_from is not None:
        remaining = max_capture_bytes
        for index in range(first + len(records) - 1, max(first, captures_from) - 1, -1):
            capture = log.capture_bytes(index)
            if capture is None:
                continue
            remaining -= len(capture)
            if remaining < 0:
                break
            captures[index - first] = capture
    return records, captures


MAX_RECORDS = 20_000  # in a log that a page loads completely
MAX_BYTES = 64 << 20  # of its records, without arrays


def is_large(log: TraceReader) -> bool:
    """Return whether the log is too long for a page to load completely."""
    return len(log) > MAX_RECORDS or log.all_record_bytes > MAX_BYTES


def join_reply(session_id: str, run: OpenLog, first: int, status: Status, large: bool) -> Joined:
    """Return the acknowledgement for a viewer that gets the records from `first` on."""
    return {
        "theater": session_id,
        "epoch": run.epoch,
        "header": run.header,
        "num_records": len(run.log),
        "from": first,
        "status": status,
        "large": large,
    }
