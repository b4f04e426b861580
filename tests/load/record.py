"""Record of a load test: date, machine, versions and results."""

import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from engine import __version__
from engine.bench.environment import sources
from engine.bench.quiet import busy_cpus, cpu_times
from engine.setup.machine import machine_facts


class Measuring:
    """Measurement of a load test. Create it before the load starts."""

    def __init__(self) -> None:
        self._load, self._before = os.getloadavg()[0], cpu_times()

    def record(self, found: dict[str, Any], into: Path | None, **versions: str) -> None:
        """Print the record, and write it to `into` if given. `versions`: versions of other programs involved."""
        whole = {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            **sources()._asdict(),
            "machine": {
                "processor": machine_facts(torch.device("cpu")).processor,
                "cpus": os.cpu_count(),
                "load_before": round(self._load, 1),  # processes
                "busy_cpus": busy_cpus(self._before, cpu_times()),  # used by other programs
            },
            "versions": {
                "kvtheater": __version__,
                "python": platform.python_version(),
                "torch": torch.__version__,
                **versions,
            },
            **found,
        }
        text = json.dumps(whole, indent=1)
        print(text)
        if into is not None:
            into.write_text(text + "\n", encoding="utf-8")
