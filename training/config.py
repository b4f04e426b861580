"""Training configuration, a TOML file that is read into a dictionary of sections.

The sections are `tokenizer`, `data`, `model`, `train` and `evaluate`; `bundled.toml` documents each key. `siblings` has
the changes common to all siblings (smaller models for comparison) and those of each; `variants` has the changes of runs
of another size.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

Section = dict[str, Any]
Config = dict[str, Section]

SECTIONS = ("tokenizer", "data", "model", "train", "evaluate", "siblings", "variants")


def load_config(path: Path, sibling: str | None = None, variant: str | None = None) -> Config:
    """Read the TOML file at `path`, with the changes of a sibling or a variant.

    Raises:
        ValueError: a section is missing, or the sibling or variant is unknown.
    """
    with path.open("rb") as file:
        config: Config = tomllib.load(file)
    missing = [name for name in SECTIONS if name not in config]
    if missing:
        raise ValueError(f"{path} lacks the section [{missing[0]}]")
    siblings = config.pop("siblings")
    if sibling is not None:
        named = siblings["named"]
        if sibling not in named:
            raise ValueError(f"unknown sibling {sibling}; use one of {', '.join(named)}")
        for section in ("model", "train"):
            config[section] |= siblings[section]
        _change(config, named[sibling])
    variants = config.pop("variants")
    if variant is not None:
        if variant not in variants:
            raise ValueError(f"unknown variant {variant}; use one of {', '.join(variants)}")
        _change(config, variants[variant])
    return config


def _change(settings: Section, changes: Section) -> None:
    """Merge `changes` into `settings`, recursively."""
    for name, value in changes.items():
        if isinstance(value, dict):
            _change(settings[name], value)
        else:
            settings[name] = value
