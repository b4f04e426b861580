"""Loading of a server's models on threads, while the server already answers."""

from __future__ import annotations

import argparse
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.cli.layer_bytes import cache_by_layer, not_served
from app.cli.loading import load
from app.cli.options import UserError, user_errors
from app.cli.terminal import say
from app.ground.errors import sentence_of
from app.ground.settings import ServerSettings
from app.models.model_entry import ModelEntry
from app.models.registry import served_name
from engine.config import EngineConfig
from engine.model.compiler_process import start_early
from engine.system.freeze_gc import freeze_gc

if TYPE_CHECKING:
    from app.models.live_model import LiveModel
    from engine.cluster.messages import ModelSource
    from engine.cluster.worker_process import Workers
    from engine.connector.tiers.tiers import Tiers


class LoadingThread:
    """Loader of a server's first model, and then of others on request. Progress is reported to the `ModelEntry` of each
    model, and in the terminal.
    """

    def __init__(
        self,
        arguments: argparse.Namespace,
        settings: ServerSettings,
        first: ModelEntry,
        tiers: Tiers | None = None,
        workers_of: Callable[[ModelSource], Workers] | None = None,
    ) -> None:
        """`arguments.model`: names and folders, the first one first. `tiers`: where all of them keep full blocks;
        `workers_of`: processes for the instances of their runs.
        """
        self._workers_of = workers_of
        self._arguments, self._settings, self._first, self._tiers = arguments, settings, first, tiers
        self._sources = {served_name(given): given for given in arguments.model}
        self._thread: threading.Thread | None = None
        self._compiled: weakref.WeakSet[LiveModel] = weakref.WeakSet()  # or loading; a released model must be freed
        self._under_way = 0  # of the others
        self.error: BaseException | None = None  # why there is no first model

    def compile_early(self) -> None:
        """Start the compiler of the first model early, since its imports take a second; no-op if it will not be
        used.
        """
        if not self._settings.config_of(self._first.name).enforce_eager:
            start_early(self._sources[self._first.name], self._arguments.dtype, self._arguments.device)

    def start(self, stop: threading.Event) -> None:
        """Start loading. `stop` is set if the first model cannot be loaded, since nothing can be served then."""
        # a daemon: a server that is stopped does not wait for it
        self._thread = threading.Thread(target=self._load, args=(stop,), name="loading", daemon=True)
        self._thread.start()

    @property
    def is_at_work(self) -> bool:
        """Whether a model is being opened or compiled, which delays the end of the process."""
        opened = self._thread is not None and self._thread.is_alive()
        return opened or self._under_way > 0 or any(model.is_compiling for model in self._compiled)

    # As `app.models.registry.Opener`: of other models than the first

    def weigh(self, name: str) -> int:
        """Return the bytes that its weights will take."""
        from app.models import live_model

        return live_model.weigh(self._sources.get(name, name), self._arguments.dtype, self._arguments.device)

    def open(self, served: ModelEntry) -> None:
        """Load a model. It is compiled only if it was named on the command line; one requested by a lesson or a race is
        small and short-lived.
        """
        self._under_way += 1  # one at a time
        try:
            model = self._read(served)
            if model.facts.name in self._settings.configs:  # only its own: the options are for one model
                model.check(self._settings.configs[model.facts.name])
            self._have(served, model, is_compiled=served.place == "named")
        except UserError as error:
            raise ValueError(str(error)) from error
        finally:
            self._under_way -= 1

    def most_bytes(self) -> int:
        """Return the bytes that the weights of all models may take."""
        if (given := self._settings.max_model_bytes) is not None:
            return given
        from app.models import live_model

        return live_model.memory(self._arguments.device) // 2

    def _load(self, stop: threading.Event) -> None:
        try:
            with freeze_gc():  # it is never released
                model = self._read(self._first)
            with user_errors(ValueError):  # ConfigError now, not when the first page asks for a session
                model.check(self._settings.config_of(model.facts.name))
        except BaseException as error:  # a bug ends the server, too, and is reported as one
            self.error = error
            self._first.set_failed(sentence_of(error))
            stop.set()
            return
        self._have(self._first, model, is_compiled=True)

    def _read(self, served: ModelEntry) -> LiveModel:
        given = self._arguments
        name = self._sources.get(served.name, served.name)
        return load(
            name, given.dtype, given.device, self._settings, True, served.set_stage, self._tiers, self._workers_of
        )

    def _have(self, served: ModelEntry, model: LiveModel, is_compiled: bool) -> None:
        served.set_model(model)
        seconds = served.status()["seconds"]
        say(
            f"{model.facts.name} is ready on {model.machine.device} after {seconds:.1f} s, {model.comparison()}",
            flush=True,
        )
        config = self._settings.config_of(served.name)
        if not model.device.has_own_memory and config.gpu_memory_utilization != EngineConfig().gpu_memory_utilization:
            say("gpu_memory_utilization applies to a GPU; here the model determines the pool's size", flush=True)
        if model.default_sampling and self._settings.api is not None:
            text = ", ".join(f"{name} {value:g}" for name, value in model.default_sampling.items())
            say(f"default sampling, from its generation_config.json: {text}", flush=True)
        if model.stored:
            say(f"weights: {model.stored}", flush=True)
        say(cache_by_layer(model.facts, model.kv_bytes_per_token), flush=True)
        if without := not_served(model.facts, model.dropped):
            say(without, flush=True)
        if own := config.forgetting:
            text = f"each KV head keeps {own.budget} tokens by {own.policy}"
            say(f"{text}: no prefix caching, no compiled pass, no CUDA graphs", flush=True)
        if is_compiled and not (config.enforce_eager or config.forgetting):
            if model.only_eager:
                say(f"served by the eager pass, not compiled: {model.only_eager}", flush=True)
                return
            self._compiled.add(model)
            served.set_compiled("under_way")
            model.compile_in_background(lambda why: served.set_compiled("failed" if why else "done", why))
