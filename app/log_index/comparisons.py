"""Comparison of two logs of this server, for its HTTP API. The latest results are cached."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from contextlib import ExitStack
from typing import Any, TypedDict

from app.ground.errors import refuse
from app.ground.plain import plain
from app.session.answers import Status
from app.session.session_manager import SessionManager
from engine.trace.codec import TraceFormatError
from engine.trace.compare import compare
from engine.trace.state import TraceStateError


class ComparedRun(TypedDict):
    """Run in the response of /api/compare; the response also has the fields of `engine.trace.compare.Comparison`."""

    theater: str
    epoch: int
    num_records: int
    status: Status


MAX_COMPARISONS = 8  # cached
MAX_RECORDS = 20_000  # of each log

Key = tuple[Any, ...]


class Comparisons:
    """Comparison of two sessions or recordings."""

    def __init__(self, sessions: SessionManager) -> None:
        self._sessions = sessions
        self._results: OrderedDict[Key, dict[str, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def answer(self, a: str, b: str) -> dict[str, Any]:
        """Return the comparison of two sessions or recordings in their current state.

        Raises:
            AppError: `unknown_theater`, `not_found`; `stale_epoch`: a session was reset meanwhile; `refused`: too long.
        """
        watched = [self._sessions.watch(name) for name in (a, b)]
        runs = [each.run for each in watched]
        with ExitStack() as reading:
            logs = [reading.enter_context(run.reading()) for run in runs]
            lengths = [len(log) for log in logs]
            if max(lengths) > MAX_RECORDS:
                raise refuse("refused", "compare.long", records=max(lengths), most=MAX_RECORDS)
            key = (a, runs[0].epoch, lengths[0], b, runs[1].epoch, lengths[1])
            with self._lock:  # serialized, so that concurrent requests for one pair share the result
                found = self._results.get(key)
                if found is None:
                    try:
                        found = plain(compare(*logs))
                    except TraceFormatError as error:
                        raise refuse("refused", "compare.record", error=error) from error
                    except TraceStateError as error:
                        raise refuse("refused", "compare.log", error=error) from error
                    self._results[key] = found
                self._results.move_to_end(key)
                while len(self._results) > MAX_COMPARISONS:
                    self._results.popitem(last=False)
        about: list[ComparedRun] = [
            {"theater": name, "epoch": run.epoch, "num_records": length, "status": each.status()}
            for name, each, run, length in zip((a, b), watched, runs, lengths, strict=True)
        ]
        for each in watched:
            each.last_used = time.monotonic()  # a comparison counts as use
        return {"runs": about, **found}
