"""Observer of the runs. Folds each run into the counts of its model, until the run is over."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable

from app.metrics.fold import Fold
from app.metrics.tally import Tally
from app.session.run import Run
from engine.trace.records import Header, StepRecord
from engine.trace.request_account import RequestRow

SPANS = "kvtheater.spans"  # key of the application's extensions: its RequestSpans, or None
logger = logging.getLogger(__name__)


class Metrics:
    """Counts of a server, for the lifetime of the process. Resetting or closing a session does not reduce them."""

    def __init__(self, on_finished: Callable[[RequestRow, StepRecord], object] | None = None) -> None:
        """Set up. `on_finished` is called on the run's thread, with each ended request and the record of its end."""
        self._on_finished = on_finished
        self._tallies: dict[str, Tally] = {}
        self._current: list[tuple[weakref.ref[Run], Header, Fold]] = []
        self._lock = threading.Lock()

    def observe(self, run: Run) -> None:
        """Count the records of a run, which has none yet."""
        header = run.full_log.header
        with self._lock:
            tally = self._tallies.setdefault(header.model.name, Tally(header.model.max_position))
            fold = Fold(header, tally, lambda: run.was_halted)
            self._forget_ended()
            self._current.append((weakref.ref(run), header, fold))

        def on_record(record: StepRecord) -> None:
            try:
                ended = fold.read(record)
                if self._on_finished is not None:
                    for request in ended:
                        self._on_finished(request, record)
            except Exception:  # a bug here must not end the run
                logger.exception("counting a record of %s", header.model.name)
                unsubscribe()

        unsubscribe = run.full_log.subscribe(on_record)

    def tallies(self) -> dict[str, Tally]:
        """Return the tallies by model, for every model that had a run."""
        with self._lock:
            return dict(self._tallies)

    def current(self) -> list[tuple[Header, Fold]]:
        """Return the current runs."""
        with self._lock:
            self._forget_ended()
            return [(header, fold) for _, header, fold in self._current]

    def _forget_ended(self) -> None:
        """Forget ended runs. The caller holds the lock."""
        self._current = [one for one in self._current if (run := one[0]()) is not None and not run.is_over]
