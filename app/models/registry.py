"""Models of a server: the first is loaded at its start, others on demand.

A model's weights are loaded once, and every engine on it shares them. The total size is bounded: to make room, the
model idle for longest is unloaded. The first one stays.
"""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from app.ground.errors import refuse, sentence_of
from app.ground.settings import MIB
from app.models.engine_face import ServedModel
from app.models.model_entry import ModelEntry, ModelStatus
from engine.model.naming import model_name
from engine.model.shipped import SHIPPED

WAIT = 5.0  # seconds for which an event waits until its model is loaded; a worker waits with it
logger = logging.getLogger(__name__)


class Opener(Protocol):
    """Loader of models on demand. Both methods raise ValueError with one sentence."""

    def weigh(self, name: str) -> int:
        """Return the bytes that its weights will take, before they are read."""

    def open(self, served: ModelEntry) -> None:
        """Load the model, and update its entry."""


def served_name(name_or_path: str) -> str:
    """Return the server's name of a model, as in the headers of its runs. The name of a folder is its last part."""
    return name_or_path if name_or_path in SHIPPED else model_name(name_or_path)


class Lease:
    """Lease of a loaded model: it is not unloaded before this is closed."""

    def __init__(self, served: ModelEntry, ended: Callable[[], object]) -> None:
        self._served, self._ended = served, ended
        self._lock = threading.Lock()
        self._is_open = True

    @property
    def name(self) -> str:
        return self._served.name

    @property
    def model(self) -> ServedModel:
        """Model. Read it at each use, so that the lease's holder does not keep the weights in memory."""
        return self._served.model

    def close(self) -> None:
        """End the lease. Idempotent."""
        with self._lock:
            was_open, self._is_open = self._is_open, False
        if was_open:
            self._ended()

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Models:
    """Models by name. Every method may be called from any thread."""

    def __init__(
        self,
        first: ModelEntry,
        others: Iterable[ModelEntry] = (),
        opener: Opener | None = None,
        most_bytes: Callable[[], int] = lambda: 0,
    ) -> None:
        """`opener` opens `others`. `most_bytes`: limit for the weights of all models."""
        self.first = first
        self._all = [first, *others]
        self._opener = opener
        self._most_bytes = most_bytes
        self._under_way: set[ModelEntry] = set()
        self._untold: set[ModelEntry] = set()  # failed, and not yet reported to a requester
        self._one_at_a_time = threading.Lock()
        self._changed = threading.Condition()  # guards the counts of leases
        self._is_closed = False

    # Queries

    @property
    def is_live(self) -> bool:
        """Whether there is a model, loaded or not."""
        return self.first.is_live

    def all(self) -> list[ModelEntry]:
        """Return every model, the first one first."""
        return list(self._all)

    def knows(self, name: str) -> bool:
        return any(served.name == name for served in self._all)

    def find(self, name: str | None) -> ModelEntry:
        """Return the model of that name; None: the first.

        Raises:
            AppError: `not_found`.
        """
        for served in self._all:
            if name is None or served.name == name:
                return served
        names = ", ".join(served.name for served in self._all)
        raise refuse("not_found", "model.unknown", name=name, names=names)

    @property
    def num_bytes(self) -> int:
        """Bytes of the weights of all loaded models."""
        return sum(served.num_bytes for served in self._all)

    @property
    def most_bytes(self) -> int:
        """Limit of the loaded bytes; the first model may exceed it."""
        return self._most_bytes()

    def on_change(self, changed: Callable[[ModelStatus], object]) -> None:
        """Call `changed` with each new status of any model, on the thread of the change."""
        for served in self._all:
            served.on_change(changed)

    # Leases

    def lease(self, name: str | None = None, wait: float | None = None) -> Lease:
        """Return a lease of a model, which is loaded if necessary. `wait`: maximum seconds to wait; None: as for
        events.

        Raises:
            AppError: `not_found`; `loading` while it is on its way, the first at once, another after `wait`;
                `refused` when it cannot be had, or there is none.
        """
        served = self.find(name)
        with self._changed:
            served.leases += 1
        lease = Lease(served, lambda: self._ended(served))
        try:
            self.first.model  # noqa: B018  # raises its error: no other model is opened instead
            if served is not self.first:
                self._have(served, WAIT if wait is None else wait)
                served.model  # noqa: B018
        except BaseException:
            lease.close()
            raise
        return lease

    def unload(self, name: str) -> None:
        """Unload a model until its next use.

        Raises:
            AppError: `not_found`; `refused` when it is the first, in use, being compiled, or not there.
        """
        served = self.find(name)
        with self._changed:
            if served is self.first:
                raise refuse("refused", "model.first", name=name)
            if not served.is_there:
                raise refuse("refused", "model.not_loaded", name=name)
            if served.leases:
                key = "model.in_use" if served.leases > 1 else "model.in_use_one"
                raise refuse("refused", key, n=served.leases, name=name)
            if served.is_compiling:
                raise refuse("refused", "model.compiling", name=name)
            served.unload()
        gc.collect()  # engines and modules refer to each other

    def close(self) -> None:
        """Close: clients waiting for a model get an error."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _ended(self, served: ModelEntry) -> None:
        with self._changed:
            served.leases -= 1
            served.use()

    def _have(self, served: ModelEntry, wait: float) -> None:
        """Request the model, if needed, and wait until it is loaded or fails."""
        with self._changed:
            if served.is_there:
                return
            if served not in self._under_way:
                if served in self._untold:  # a client that polls for a loading model must see its failure
                    self._untold.discard(served)
                    return
                self._under_way.add(served)
                served.wait()
                threading.Thread(target=self._open, args=(served,), name="loading", daemon=True).start()
            self._changed.wait_for(lambda: self._is_closed or served not in self._under_way, wait)
            if served not in self._under_way:
                self._untold.discard(served)

    def _open(self, served: ModelEntry) -> None:
        """Load on a separate thread, since waiting clients may give up."""
        try:
            with self._one_at_a_time:
                assert self._opener is not None  # given if there are other models
                self._make_room(served, self._opener.weigh(served.name))
                self._opener.open(served)
        except Exception as error:
            if not isinstance(error, ValueError):
                logger.exception("opening %s", served.name)
            served.fail(sentence_of(error))
            with self._changed:
                self._untold.add(served)
        finally:
            with self._changed:
                self._under_way.discard(served)
                self._changed.notify_all()

    def _make_room(self, served: ModelEntry, needed: int) -> None:
        """Unload models, the one idle for longest first, until `needed` bytes fit.

        Raises:
            ValueError: those in use leave no room.
        """
        most = self.most_bytes
        with self._changed:
            idle = sorted((one for one in self._all if self._is_idle(one)), key=lambda one: one.last_used)
            if self.num_bytes - sum(one.num_bytes for one in idle) + needed > most:
                held = [one for one in self._all if one.num_bytes and one not in idle]
                names = ", ".join(f"{one.name} {_mib(one.num_bytes)}" for one in held)
                raise ValueError(
                    f"its weights take {_mib(needed)} MiB, and of the {_mib(most)} MiB that models may take "
                    f"those in use hold {_mib(sum(one.num_bytes for one in held))} ({names}): "
                    "close what runs on them, or start the server with a larger --max-model-mib"
                )
            if self.num_bytes + needed <= most:
                return
            while self.num_bytes + needed > most:
                idle.pop(0).unload()
        gc.collect()  # engines and modules refer to each other

    def _is_idle(self, served: ModelEntry) -> bool:
        return served is not self.first and served.is_there and not served.leases and not served.is_compiling


def _mib(num_bytes: int) -> str:
    return f"{num_bytes / MIB:.3g}" if num_bytes < 1000 * MIB else f"{num_bytes / MIB:.0f}"
