"""Opening a model for a command, with a sign of life on a terminal."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from app.cli.options import UserError
from app.settings import ServerSettings

if TYPE_CHECKING:
    from app.live_model import LiveModel


def load(name: str, dtype: str, device: str, settings: ServerSettings) -> LiveModel:
    """The model.

    Raises:
        UserError: it cannot be opened, and why.
    """
    is_local = name.partition("-")[0] == "bundled" or os.path.isdir(name)  # no import of torch for a sign of life
    # A failing hub is reported in one sentence below, not retry by retry.
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    if is_local or not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # a download shows its own, the rest has no need
    if not is_local and _may_be_of_the_hub(name):  # at once: without a network the hub takes half a minute to fail
        print(f"kvtheater: {name} is not a folder here; asking the Hugging Face hub", file=sys.stderr, flush=True)
    with _sign_of_life(f"loading {name}") if is_local else contextlib.nullcontext():
        from app import live_model

        try:
            return live_model.load(name, dtype, device, settings)
        except ValueError as error:  # ModelError
            raise UserError(str(error)) from error


def _may_be_of_the_hub(name: str) -> bool:
    return not name.startswith((".", "/", "~")) and name.count("/") <= 1


def _sign_of_life(text: str) -> contextlib.AbstractContextManager[object]:
    if not sys.stderr.isatty():
        return contextlib.nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(text)
