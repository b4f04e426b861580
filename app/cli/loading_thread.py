"""Loading of a server's models on threads, while the server already accepts requests."""

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
    """Loader of a server's first model, and of others on demand. Reports progress to the models' `ModelEntry`, and on
    the terminal.
    """

    def __init__(
        self,
        arguments: argparse.Namespace,
        settings: ServerSettings,
        first: ModelEntry,
        tiers: Tiers | None = None,
        workers_of: Callable[[ModelSource], Workers] | None = None,
    ) -> None:
        """`arguments.model`: names and folders, beginning with the first model. `tiers`: store of full blocks that all
        models share. `workers_of`: factory of processes for the instances of runs.
        """
        self._workers_of = workers_of
        self._arguments, self._settings, self._first, self._tiers = arguments, settings, first, tiers
        self._sources = {served_name(source): source for source in arguments.model}
        self._thread: threading.Thread | None = None
        self._compiled: weakref.WeakSet[LiveModel] = weakref.WeakSet()  # or compiling; unloaded models are freed
        self._num_opening = 0  # models that `open` is loading
        self.error: BaseException | None = None  # why the first model could not be loaded

    def compile_early(self) -> None:
        """Start the compiler of the first model, whose imports take a second. No-op if the first model runs eagerly."""
        if not self._settings.config_of(self._first.name).enforce_eager:
            start_early(self._sources[self._first.name], self._arguments.dtype, self._arguments.device)

    def start(self, stop: threading.Event) -> None:
        """Start loading. `stop` is set if the first model cannot be loaded, since nothing can be served then."""
        # a daemon thread, so that a stopping server does not wait for it
        self._thread = threading.Thread(target=self._load, args=(stop,), name="loading", daemon=True)
        self._thread.start()

    @property
    def is_at_work(self) -> bool:
        """Whether a model is being opened or compiled, which delays the end of the process."""
        opened = self._thread is not None and self._thread.is_alive()
        return opened or self._num_opening > 0 or any(model.is_compiling for model in self._compiled)

    # `app.models.registry.Opener`, for models other than the first

    def weigh(self, name: str) -> int:
        """Return the bytes that the model's weights will take."""
        from app.models import live_model

        return live_model.weigh(self._sources.get(name, name), self._arguments.dtype, self._arguments.device)

    def open(self, served: ModelEntry) -> None:
        """Load a model. Only a model named on the command line is compiled; one requested by a lesson or a race is
        small and short-lived.
        """
        self._num_opening += 1  # needs no lock, since the registry opens one model at a time
        try:
            model = self._read(served)
            if model.facts.name in self._settings.configs:  # the command line's settings are checked with the first one
                model.check(self._settings.configs[model.facts.name])
            self._report_loaded(served, model, is_compiled=served.place == "named")
        except UserError as error:
            raise ValueError(str(error)) from error
        finally:
            self._num_opening -= 1

    def most_bytes(self) -> int:
        """Return the maximum bytes of the weights of all models."""
        if (limit := self._settings.max_model_bytes) is not None:
            return limit
        from app.models import live_model

        return live_model.memory(self._arguments.device) // 2

    def _load(self, stop: threading.Event) -> None:
        try:
            with freeze_gc():  # the first model is never unloaded
                model = self._read(self._first)
            with user_errors(ValueError):  # report a ConfigError now, not when a client opens the first session
                model.check(self._settings.config_of(model.facts.name))
        except BaseException as error:  # a bug ends the server too
            self.error = error
            self._first.set_failed(sentence_of(error))
            stop.set()
            return
        self._report_loaded(self._first, model, is_compiled=True)

    def _read(self, served: ModelEntry) -> LiveModel:
        dtype, device = self._arguments.dtype, self._arguments.device
        name = self._sources.get(served.name, served.name)
        return load(name, dtype, device, self._settings, True, served.set_stage, self._tiers, self._workers_of)

    def _report_loaded(self, served: ModelEntry, model: LiveModel, is_compiled: bool) -> None:
        served.set_model(model)
        seconds = served.status()["seconds"]
        say(
            f"{model.facts.name} is ready on {model.machine.device} after {seconds:.1f} s, {model.comparison()}",
            flush=True,
        )
        config = self._settings.config_of(served.name)
        if not model.device.has_own_memory and config.gpu_memory_utilization != EngineConfig().gpu_memory_utilization:
            say("gpu_memory_utilization applies to a GPU; on a CPU the model determines the pool's size", flush=True)
        if model.default_sampling and self._settings.api is not None:
            text = ", ".join(f"{name} {value:g}" for name, value in model.default_sampling.items())
            say(f"default sampling, from the model's generation_config.json: {text}", flush=True)
        if model.stored:
            say(f"weights: {model.stored}", flush=True)
        say(cache_by_layer(model.facts, model.kv_bytes_per_token), flush=True)
        if missing := not_served(model.facts, model.dropped):
            say(missing, flush=True)
        if forgetting := config.forgetting:
            text = f"each KV head keeps {forgetting.budget} tokens by {forgetting.policy}"
            say(f"{text}: no prefix caching, no compiled pass, no CUDA graphs", flush=True)
        if is_compiled and not (config.enforce_eager or config.forgetting):
            if model.only_eager:
                say(f"served by the eager pass, not compiled: {model.only_eager}", flush=True)
                return
            self._compiled.add(model)
            served.set_compiled("under_way")
            model.compile_in_background(lambda error: served.set_compiled("failed" if error else "done", error))
