"""Models of a server. The first is loaded at the start and never unloaded, others are loaded on demand.

The weights of a model are loaded once and shared by all its engines. Their total size is limited: to make room, the
least recently used idle model is unloaded.
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

WAIT = 5.0  # maximum seconds for which an event waits for its model, blocking a worker thread
logger = logging.getLogger(__name__)


class Opener(Protocol):
    """Loader of models on demand. Both methods raise ValueError with one sentence."""

    def weigh(self, name: str) -> int:
        """Return the bytes that the weights of a model will take, before they are read."""

    def open(self, served: ModelEntry) -> None:
        """Load a model, and update its entry."""


def served_name(name_or_path: str) -> str:
    """Return the name under which a model is served, as in the headers of its runs."""
    return name_or_path if name_or_path in SHIPPED else model_name(name_or_path)


class Lease:
    """Lease of a loaded model, which is not unloaded before the lease is closed."""

    def __init__(self, served: ModelEntry, ended: Callable[[], object]) -> None:
        self._served, self._ended = served, ended
        self._lock = threading.Lock()
        self._is_open = True

    @property
    def name(self) -> str:
        return self._served.name

    @property
    def model(self) -> ServedModel:
        """The model. Do not store it, since a reference would keep the weights in memory after the lease."""
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
        max_bytes: Callable[[], int] = lambda: 0,
    ) -> None:
        """`opener` loads `others`. `max_bytes` returns the limit for the weights of all models."""
        self.first = first
        self._all = [first, *others]
        self._opener = opener
        self._max_bytes = max_bytes
        self._loading: set[ModelEntry] = set()
        self._unreported: set[ModelEntry] = set()  # failed models whose error has not been reported to a requester
        self._load_lock = threading.Lock()
        self._changed = threading.Condition()  # guards the counts of leases
        self._is_closed = False

    # Queries

    @property
    def is_live(self) -> bool:
        """Whether there is a model, even if it is not loaded."""
        return self.first.is_live

    def all(self) -> list[ModelEntry]:
        """Return the entries of all models, beginning with the first model's."""
        return list(self._all)

    def knows(self, name: str) -> bool:
        return any(served.name == name for served in self._all)

    def find(self, name: str | None) -> ModelEntry:
        """Return the entry of a model by name; None: the first model's.

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
    def max_bytes(self) -> int:
        """Limit for the weights of loaded models. The first model may exceed it."""
        return self._max_bytes()

    def on_change(self, changed: Callable[[ModelStatus], object]) -> None:
        """Call `changed` with each new status of any model, on the thread of the change."""
        for served in self._all:
            served.on_change(changed)

    # Leases

    def lease(self, name: str | None = None, wait: float | None = None) -> Lease:
        """Return a lease of a model, which is loaded if necessary. `wait`: maximum seconds to wait for a model other
        than the first; None: `WAIT`.

        Raises:
            AppError: `not_found`; `loading` if it is not loaded in time; `refused` if loading fails or there is no
                model.
        """
        served = self.find(name)
        with self._changed:
            served.leases += 1
        lease = Lease(served, lambda: self._ended(served))
        try:
            self.first.model  # noqa: B018  # raises an error if the first model is not loaded
            if served is not self.first:
                self._load(served, WAIT if wait is None else wait)
                served.model  # noqa: B018
        except BaseException:
            lease.close()
            raise
        return lease

    def unload(self, name: str) -> None:
        """Unload a model until its next use.

        Raises:
            AppError: `not_found`; `refused` if it is the first model, in use, being compiled, or not loaded.
        """
        served = self.find(name)
        with self._changed:
            if served is self.first:
                raise refuse("refused", "model.first", name=name)
            if not served.is_loaded:
                raise refuse("refused", "model.not_loaded", name=name)
            if served.leases:
                key = "model.in_use" if served.leases > 1 else "model.in_use_one"
                raise refuse("refused", key, n=served.leases, name=name)
            if served.is_compiling:
                raise refuse("refused", "model.compiling", name=name)
            served.set_unloaded()
        gc.collect()  # engines and modules refer to each other

    def close(self) -> None:
        """Stop waiting for models. Waiting clients get an error."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _ended(self, served: ModelEntry) -> None:
        with self._changed:
            served.leases -= 1
            served.use()

    def _load(self, served: ModelEntry, wait: float) -> None:
        """Load the model if needed, and wait at most `wait` seconds until it is loaded or has failed."""
        with self._changed:
            if served.is_loaded:
                return
            if served not in self._loading:
                if served in self._unreported:  # report the failure to a client that polls, instead of loading again
                    self._unreported.discard(served)
                    return
                self._loading.add(served)
                served.set_loading()
                threading.Thread(target=self._open, args=(served,), name="loading", daemon=True).start()
            self._changed.wait_for(lambda: self._is_closed or served not in self._loading, wait)
            if served not in self._loading:
                self._unreported.discard(served)

    def _open(self, served: ModelEntry) -> None:
        """Load a model. Runs on a separate thread, since waiting clients may give up."""
        try:
            with self._load_lock:
                assert self._opener is not None  # given if there are other models
                self._make_room(served, self._opener.weigh(served.name))
                self._opener.open(served)
        except Exception as error:
            if not isinstance(error, ValueError):
                logger.exception("loading %s failed", served.name)
            served.set_failed(sentence_of(error))
            with self._changed:
                self._unreported.add(served)
        finally:
            with self._changed:
                self._loading.discard(served)
                self._changed.notify_all()

    def _make_room(self, served: ModelEntry, needed: int) -> None:
        """Unload idle models, least recently used first, until `needed` bytes fit.

        Raises:
            ValueError: the models in use leave too little room.
        """
        limit = self.max_bytes
        with self._changed:
            idle = sorted((one for one in self._all if self._is_idle(one)), key=lambda one: one.last_used)
            if self.num_bytes - sum(one.num_bytes for one in idle) + needed > limit:
                held = [one for one in self._all if one.num_bytes and one not in idle]
                names = ", ".join(f"{one.name} {_mib(one.num_bytes)}" for one in held)
                raise ValueError(
                    f"its weights take {_mib(needed)} MiB, but of the limit of {_mib(limit)} MiB for all models, "
                    f"{_mib(sum(one.num_bytes for one in held))} MiB are in use ({names}); "
                    "close their sessions, or start the server with a larger --max-model-mib"
                )
            if self.num_bytes + needed <= limit:
                return
            while self.num_bytes + needed > limit:
                idle.pop(0).set_unloaded()
        gc.collect()  # engines and modules refer to each other

    def _is_idle(self, served: ModelEntry) -> bool:
        return served is not self.first and served.is_loaded and not served.leases and not served.is_compiling


def _mib(num_bytes: int) -> str:
    return f"{num_bytes / MIB:.3g}" if num_bytes < 1000 * MIB else f"{num_bytes / MIB:.0f}"
