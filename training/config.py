"""The training configuration: one TOML file, read into a plain dictionary of sections.

The sections are `tokenizer`, `data`, `model`, `train` and `evaluate`; `bundled.toml` documents each key.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

Section = dict[str, Any]
Config = dict[str, Section]

SECTIONS = ("tokenizer", "data", "model", "train", "evaluate")


def load_config(path: Path) -> Config:
    """Read the TOML file at `path`. Raises `ValueError` that names a section that is missing."""
    with path.open("rb") as file:
        config: Config = tomllib.load(file)
    missing = [name for name in SECTIONS if name not in config]
    if missing:
        raise ValueError(f"{path} lacks the section [{missing[0]}]")
    return config
