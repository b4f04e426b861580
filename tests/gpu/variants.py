"""Options of the engine that are compared with its defaults, by their names in the one table of options."""

from __future__ import annotations

from typing import Any

from engine.config import EngineConfig
from engine.options.table import table_of

VARIANTS: dict[str, dict[str, Any]] = {
    "CUDA graphs": {"cuda_graphs": True},
    "sampling on the device": {"device_sampling": True},
    "asynchronous scheduling": {"async_scheduling": True},
    "all of them": {"cuda_graphs": True, "device_sampling": True, "async_scheduling": True},
}


def overrides(name: str) -> tuple[dict[str, Any], str]:
    """The settings of a variant that this engine has, and why it cannot be run ("": it can)."""
    known = table_of(EngineConfig)
    missing = [option for option in VARIANTS[name] if option not in known]
    found = {option: value for option, value in VARIANTS[name].items() if option in known}
    return found, f"EngineConfig has no option {', '.join(missing)}" if missing else ""
