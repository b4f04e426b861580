"""Part of a run in a separate process: `python -m tests.gpu.part PART DEVICE TINY SECONDS OUT [NAME=VALUE]`."""

from __future__ import annotations

import faulthandler
import importlib
import logging
import sys
import time
from pathlib import Path

from tests.gpu.results import Run, Skipped


def main(part: str, device: str, tiny: str, seconds: str, out: str, *options: str) -> None:
    """Call the part's `run`."""
    faulthandler.enable()
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    given = dict(option.split("=", 1) for option in options)
    run = Run(part, device, tiny == "1", float(seconds), Path(out), given, time.monotonic())
    try:
        if device == "cuda":
            import torch

            if not torch.cuda.is_available():
                raise Skipped(f"torch {torch.__version__} sees no GPU")
        importlib.import_module(f"tests.gpu.{part}").run(run)
    except (Skipped, ModuleNotFoundError) as error:
        run.add("all", "skipped", str(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
