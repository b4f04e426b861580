"""Where a run happens: device, processor and versions, for trace headers and benchmark records."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from engine.trace.records import Machine


def machine_facts(device: torch.device) -> Machine:
    """Facts about this machine; nothing that identifies its user."""
    return Machine(
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        processor=_processor(),
        num_threads=torch.get_num_threads(),
        versions={"python": platform.python_version(), **_versions("torch", "transformers", "numpy")},
    )


def _processor() -> str:
    """The processor's name as the system gives it ("" when it does not)."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _versions(*packages: str) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
