"""Opening a model for a command, with a line on standard error for each thing that takes time."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.cli.hub import ask_hub
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

LEAST = 384 << 20  # bytes; a control group with the bundled model ready to serve had taken 378 MiB


def load(
    name: str,
    dtype: str,
    device: str,
    settings: ServerSettings,
    aloud: bool | None = None,
    on_progress: Callable[[LoadingStage], object] = lambda stage: None,
    tiers: Tiers | None = None,
    workers_of: Callable[[ModelSource], Workers] | None = None,
) -> LiveModel:
    """Load the model. Progress is printed, `aloud` or, if that is None, on a terminal; and passed to `on_progress`.
    `tiers`:
    where its runs store full blocks outside their pools; `workers_of`: processes for instances.

    Raises:
        UserError: it cannot be opened, and why.
    """
    if (allowed := memory().total) < LEAST:  # the system would end the process without a word
        raise UserError(f"{allowed >> 20} MiB of memory are allowed here; torch and a small model take {LEAST >> 20}")
    # printed without importing torch
    is_local = name.partition("-")[0] == "bundled" or os.path.isdir(name) or is_gguf(name)
    if is_local or not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # a download shows its own progress
    shows_progress = sys.stderr.isatty() if aloud is None else aloud

    def tell(stage: LoadingStage) -> None:
        on_progress(stage)
        if shows_progress:
            _say(f"loading {name}: {IN_WORDS[stage]}")
            working(IN_WORDS[stage])

    if not is_local:
        ask_hub(name)
    tell("torch")
    from app.models import live_model

    try:
        return live_model.load(name, dtype, device, settings, tell, tiers, workers_of)
    except ValueError as error:  # ModelError
        raise UserError(sentence_of(error)) from error
    finally:
        working("")


def _say(text: str) -> None:
    say(f"kvtheater: {text}", to=sys.stderr)
    sys.stderr.flush()
