"""Observer of the runs: each new run is folded into the counts of its model, and dropped when it is over."""

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

SPANS = "kvtheater.spans"  # the application's extension: its RequestSpans, or None
logger = logging.getLogger(__name__)


class Metrics:
    """Counts of a server. They belong to the process: a reset or a closed session subtracts nothing."""

    def __init__(self, finished: Callable[[RequestRow, StepRecord], object] | None = None) -> None:
        """Set up. `finished` is called, on the run's thread, with each request that ended and the record in which it
        did.
        """
        self._finished = finished
        self._tallies: dict[str, Tally] = {}
        self._present: list[tuple[weakref.ref[Run], Header, Fold]] = []
        self._lock = threading.Lock()

    def observe(self, run: Run) -> None:
        """Count the records that this run appends from now on; it has none yet."""
        header = run.full_log.header
        with self._lock:
            tally = self._tallies.setdefault(header.model.name, Tally(header.model.max_position))
            fold = Fold(header, tally, lambda: run.was_halted)
            self._forget_ended()
            self._present.append((weakref.ref(run), header, fold))

        def take(record: StepRecord) -> None:
            try:
                ended = fold.take(record)
                if self._finished is not None:
                    for request in ended:
                        self._finished(request, record)
            except Exception:  # a mistake here must not end the run that it watches
                logger.exception("counting a record of %s", header.model.name)
                unsubscribe()

        unsubscribe = run.full_log.subscribe(take)

    def tallies(self) -> dict[str, Tally]:
        """Return the tallies by model, for every model that had a run."""
        with self._lock:
            return dict(self._tallies)

    def present(self) -> list[tuple[Header, Fold]]:
        """Return the current runs."""
        with self._lock:
            self._forget_ended()
            return [(header, fold) for _, header, fold in self._present]

    def _forget_ended(self) -> None:
        """Forget ended runs. The caller holds the lock."""
        self._present = [one for one in self._present if (run := one[0]()) is not None and not run.is_over]
