"""The training configuration: one TOML file, read into a plain dictionary of sections.

The sections are `tokenizer`, `data`, `model`, `train` and `evaluate`; `bundled.toml` documents each key. The section
`siblings` says what smaller models for comparison change, and how many KV heads each of them has.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

Section = dict[str, Any]
Config = dict[str, Section]

SECTIONS = ("tokenizer", "data", "model", "train", "evaluate", "siblings")


def load_config(path: Path, sibling: str | None = None) -> Config:
    """Read the TOML file at `path`, for the sibling of that name if one is given.

    Raises `ValueError` that names a section that is missing, or the siblings there are.
    """
    with path.open("rb") as file:
        config: Config = tomllib.load(file)
    missing = [name for name in SECTIONS if name not in config]
    if missing:
        raise ValueError(f"{path} lacks the section [{missing[0]}]")
    siblings = config.pop("siblings")
    if sibling is not None:
        if sibling not in siblings["kv_heads"]:
            raise ValueError(f"no sibling is named {sibling}: there are {', '.join(siblings['kv_heads'])}")
        for section in ("model", "train"):
            config[section] |= siblings[section]
        config["model"]["kv_heads"] = siblings["kv_heads"][sibling]
    return config
