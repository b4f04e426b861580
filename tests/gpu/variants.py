"""Engine options to compare with the defaults, by their names in the table of options."""

from __future__ import annotations

from typing import Any

from engine.config import EngineConfig
from engine.options.table import table_of

GRAPHS = {"max_cudagraph_capture_size": 256, "enforce_eager": False}  # the largest measured batch
BESIDE = {"async_scheduling": True}
VARIANTS: dict[str, dict[str, Any]] = {
    "CUDA graphs": GRAPHS,
    "asynchronous scheduling": BESIDE,
    "all of them": {**GRAPHS, **BESIDE},
}


def overrides(name: str) -> tuple[dict[str, Any], str]:
    """Return the supported settings of a variant, and why the variant cannot be run, or ""."""
    known = table_of(EngineConfig)
    missing = [option for option in VARIANTS[name] if option not in known]
    found = {option: value for option, value in VARIANTS[name].items() if option in known}
    return found, f"EngineConfig has no option {', '.join(missing)}" if missing else ""
