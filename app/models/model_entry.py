"""Entry of a model in the registry: its loading status, and the model once it is loaded."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Literal, TypedDict

from app.ground.errors import refuse
from app.models.engine_face import ServedModel
from engine.model.loading_stages import IN_WORDS, LOADING_STAGES, LoadingStage
from engine.options.refusal import Sentence
from engine.trace.records import ModelFacts

ModelState = Literal["none", "unloaded", "loading", "ready", "failed"]
ModelPlace = Literal["first", "named", "at_hand"]
CompiledState = Literal["off", "under_way", "done", "failed"]


class ModelStatus(TypedDict):
    """The `model` event: loading status of one of the server's models. Sent to new clients, and at every change."""

    name: str
    state: ModelState  # none: the server shows only recordings; unloaded: the model loads on demand
    stage: LoadingStage | None  # current stage of loading, or the stage that failed
    stages: list[LoadingStage]  # all stages in order
    seconds: float  # duration of loading so far, or in total
    compiled: CompiledState  # done: new runs use the compiled forward pass
    error: str  # why loading or compiling failed, in one sentence; "" if neither did
    said: dict[str, str]  # the error in other languages, by language code
    place: ModelPlace  # first: default of new runs; named: given at the server's start; at_hand: shipped
    bytes: int  # size of the loaded weights; 0: not loaded


class ModelEntry:
    """Model and its loading status. Every method may be called on any thread."""

    def __init__(self, model: ServedModel | None, name: str = "", place: ModelPlace = "first") -> None:
        """Create the entry of a loaded model. None: the server shows only recordings.

        See `ModelEntry.loading` for a model that is loading, and `ModelEntry.unloaded` for one that loads on demand.
        """
        self.place: ModelPlace = place
        self.leases = 0  # number of open leases, counted by `app.models.registry.Models`
        self.last_used = time.monotonic()
        self._model = model
        self._facts = _facts_of(model)
        self._name = model.facts.name if model is not None else name
        self._state: ModelState = "none" if model is None else "ready"
        self._stage: LoadingStage | None = None
        self._compiled: CompiledState = "off"
        self._error = ""
        self._began = time.monotonic()
        self._seconds: float | None = 0.0  # None: still loading
        self._on_change: Callable[[ModelStatus], object] = lambda status: None
        self._lock = threading.RLock()

    @classmethod
    def loading(cls, name: str) -> ModelEntry:
        """Return the entry of a model that is loading. Call `set_stage`, and finally `set_model` or `set_failed`."""
        found = cls(None, name)
        found._state, found._seconds = "loading", None
        return found

    @classmethod
    def unloaded(cls, name: str, place: ModelPlace) -> ModelEntry:
        """Return the entry of a model that loads on demand."""
        found = cls(None, name, place)
        found._state = "unloaded"
        return found

    def on_change(self, changed: Callable[[ModelStatus], object]) -> None:
        """Call `changed` with each new status, on the thread of the change."""
        self._on_change = changed

    # Known facts

    @property
    def name(self) -> str:
        """Name of the model. Once it is loaded, this is the name in the headers of its runs."""
        return self._name

    @property
    def is_loaded(self) -> bool:
        return self._model is not None

    @property
    def is_compiling(self) -> bool:
        return self._compiled == "under_way"

    @property
    def num_bytes(self) -> int:
        """Bytes of its weights in memory."""
        model = self._model
        return 0 if model is None else model.num_bytes

    @property
    def is_live(self) -> bool:
        """Whether there is a model, even if it is not loaded."""
        return self._state != "none"

    @property
    def is_loading(self) -> bool:
        return self._state == "loading"

    @property
    def facts(self) -> ModelFacts | None:
        """Facts of the model, or None if it was never loaded."""
        return self._facts[0] if self._facts else None

    @property
    def kv_bytes_per_token(self) -> int | None:
        """Bytes of a token in the KV cache, or None if the model was never loaded."""
        return self._facts[1] if self._facts else None

    @property
    def model(self) -> ServedModel:
        """The model.

        Raises:
            AppError: `loading` while it is being loaded; `refused` if there is none or loading failed.
        """
        with self._lock:
            if self._model is not None:
                return self._model
            if self._state == "loading":
                doing = f" ({IN_WORDS[self._stage]})" if self._stage else ""
                raise refuse("loading", "model.not_yet", name=self._name, doing=doing)
            if self._state == "failed":
                raise refuse("refused", "model.failed", name=self._name, error=self._error)
            if self._state == "unloaded":  # unloaded meanwhile
                raise refuse("loading", "model.gone", name=self._name)
        raise refuse("refused", "model.none")

    def status(self) -> ModelStatus:
        """Return the loading status, as in the `model` event."""
        with self._lock:
            return {
                "name": self._name,
                "state": self._state,
                "stage": self._stage,
                "stages": list(LOADING_STAGES),
                "seconds": time.monotonic() - self._began if self._seconds is None else self._seconds,
                "compiled": self._compiled,
                "error": str(self._error),
                "said": dict(self._error.translations) if isinstance(self._error, Sentence) else {},
                "place": self.place,
                "bytes": self.num_bytes,
            }

    # Status changes

    def use(self) -> None:
        """Update the time of the last use."""
        self.last_used = time.monotonic()

    def set_loading(self) -> None:
        """Mark as loading."""
        with self._lock:
            self._state, self._stage, self._seconds, self._error = "loading", None, None, ""
            self._began = time.monotonic()
            self._on_change(self.status())

    def set_unloaded(self) -> None:
        """Mark as unloaded, until its next use."""
        with self._lock:
            self._model, self._state, self._stage, self._compiled = None, "unloaded", None, "off"
            self._on_change(self.status())

    def set_stage(self, stage: LoadingStage) -> None:
        """Set the current loading stage."""
        with self._lock:
            self._stage = stage
            self._on_change(self.status())

    def set_model(self, model: ServedModel) -> None:
        """Set the loaded model."""
        with self._lock:
            self._model, self._name, self._state, self._stage = model, model.facts.name, "ready", None
            self._facts = _facts_of(model)
            self._seconds = time.monotonic() - self._began
            self._on_change(self.status())

    def set_failed(self, error: str) -> None:
        """Mark the loading as failed. `error`: one sentence."""
        with self._lock:
            self._state, self._error = "failed", error  # keep the stage of the failure
            self._seconds = time.monotonic() - self._began
            self._on_change(self.status())

    def set_compiled(self, state: CompiledState, error: str = "") -> None:
        """Set the status of compilation. `error`: one sentence if it failed."""
        with self._lock:
            self._compiled, self._error = state, error
            self._on_change(self.status())


def _facts_of(model: ServedModel | None) -> tuple[ModelFacts, int] | None:
    return None if model is None else (model.facts, model.kv_bytes_per_token)
