"""The record of a load with a browser: where it was made, printed and kept."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from engine import __version__
from engine.machine import machine_facts


def tell(record: dict[str, Any], load: float, chromium: str, into: Path | None) -> None:
    """Print it with machine and versions; `into`: and keep it there. `load`: of the machine before, processes."""
    whole = {
        **record,
        "machine": {
            "processor": machine_facts(torch.device("cpu")).processor,
            "cpus": os.cpu_count(),
            "load_before": round(load, 1),
        },
        "versions": {"kvtheater": __version__, "python": sys.version.split()[0], "chromium": chromium},
    }
    text = json.dumps(whole, indent=2)
    print(text)
    if into is not None:
        into.write_text(text + "\n", encoding="utf-8")
