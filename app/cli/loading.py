"""Opening of a model for a command, with a line on standard error for each slow stage."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.cli.hub import prepare_hub
from app.cli.options import UserError
from app.cli.terminal import say
from app.ground.errors import sentence_of
from app.ground.settings import ServerSettings
from app.ground.working import working
from engine.model.gguf_file import is_gguf
from engine.model.loading_stages import IN_WORDS, LoadingStage
from engine.system.cgroup import memory

if TYPE_CHECKING:
    from app.models.live_model import LiveModel
    from engine.cluster.messages import ModelSource
    from engine.cluster.worker_process import Workers
    from engine.connector.tiers.tiers import Tiers

MIN_MEMORY = 384 << 20  # bytes; a control group with the bundled model ready to serve used 378 MiB


def load(
    name: str,
    dtype: str,
    device: str,
    settings: ServerSettings,
    is_verbose: bool | None = None,
    on_progress: Callable[[LoadingStage], object] = lambda stage: None,
    tiers: Tiers | None = None,
    workers_of: Callable[[ModelSource], Workers] | None = None,
) -> LiveModel:
    """Load the model. Passes progress to `on_progress`, and prints it if `is_verbose`; None: on a terminal only.

    `tiers`: store of full blocks outside the pools. `workers_of`: factory of processes for instances.

    Raises:
        UserError: the model cannot be opened.
    """
    if (limit := memory().total) < MIN_MEMORY:  # the kernel would kill the process without a message
        need = f"torch and a small model need {MIN_MEMORY >> 20} MiB"
        raise UserError(f"the memory limit is {limit >> 20} MiB; {need}")
    is_local = name.partition("-")[0] == "bundled" or os.path.isdir(name) or is_gguf(name)
    if is_local or not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # a download shows its own progress
    is_verbose = sys.stderr.isatty() if is_verbose is None else is_verbose

    def report(stage: LoadingStage) -> None:
        on_progress(stage)
        if is_verbose:
            _say(f"loading {name}: {IN_WORDS[stage]}")
            working(IN_WORDS[stage])

    if not is_local:
        prepare_hub(name)
    report("torch")
    from app.models import live_model

    try:
        return live_model.load(name, dtype, device, settings, report, tiers, workers_of)
    except ValueError as error:  # ModelError
        raise UserError(sentence_of(error)) from error
    finally:
        working("")


def _say(text: str) -> None:
    say(f"kvtheater: {text}", to=sys.stderr)
    sys.stderr.flush()
