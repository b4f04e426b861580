"""Loading the model of a server that answers already, on a thread beside it."""

from __future__ import annotations

import argparse
import threading
from typing import TYPE_CHECKING

from app.cli.loading import load
from app.cli.options import UserError
from app.errors import one_sentence
from app.served import Served
from app.settings import ServerSettings

if TYPE_CHECKING:
    from app.live_model import LiveModel


class LoadingThread:
    """A model on its way to a server. What becomes of it is told to `served`, and in the terminal."""

    def __init__(self, arguments: argparse.Namespace, settings: ServerSettings, served: Served) -> None:
        self._arguments, self._settings, self._served = arguments, settings, served
        self._thread: threading.Thread | None = None
        self._model: LiveModel | None = None
        self.error: BaseException | None = None  # why there is no model

    def start(self, stop: threading.Event) -> None:
        """Begin; `stop` is set when the model cannot be had: there is nothing to serve then."""
        # a daemon: a server that is stopped does not wait for it
        self._thread = threading.Thread(target=self._load, args=(stop,), name="loading", daemon=True)
        self._thread.start()

    @property
    def is_at_work(self) -> bool:
        """Whether the model is being opened or compiled: neither lets a process end in peace."""
        opened = self._thread is not None and self._thread.is_alive()
        return opened or (self._model is not None and self._model.is_compiling)

    def _load(self, stop: threading.Event) -> None:
        given, served = self._arguments, self._served
        try:
            model = load(given.model, given.dtype, given.device, self._settings, True, served.begin)
            try:
                model.check(self._settings.config)  # now, not when the first page asks for a theater
            except ValueError as error:  # ConfigError
                raise UserError(str(error)) from error
        except BaseException as error:  # a mistake of the program ends the server, too, and is told as one
            self.error = error
            served.fail(one_sentence(error))
            stop.set()
            return
        self._model = model
        served.have(model)
        seconds = served.status()["seconds"]
        print(
            f"{model.facts.name} is ready on {model.machine.device} after {seconds:.1f} s, {model.compared()}",
            flush=True,
        )
        if not self._settings.config.enforce_eager:
            served.compiled("under_way")
            model.compile_in_background(lambda why: served.compiled("failed" if why else "done", why))
