"""The training configuration: one TOML file, read into a plain dictionary of sections.

The sections are `tokenizer`, `data`, `model`, `train` and `evaluate`; `bundled.toml` documents each key. The section
`siblings` says what smaller models for comparison change, and what each of them changes alone; `variants` what a run of
another size changes.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

Section = dict[str, Any]
Config = dict[str, Section]

SECTIONS = ("tokenizer", "data", "model", "train", "evaluate", "siblings", "variants")


def load_config(path: Path, sibling: str | None = None, variant: str | None = None) -> Config:
    """Read the TOML file at `path`, for the sibling of that name if one is given, and with the changes of a variant.

    Raises `ValueError` that names a section that is missing, or the siblings or variants there are.
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
            raise ValueError(f"no sibling is named {sibling}: there are {', '.join(named)}")
        for section in ("model", "train"):
            config[section] |= siblings[section]
        _change(config, named[sibling])
    variants = config.pop("variants")
    if variant is not None:
        if variant not in variants:
            raise ValueError(f"no variant is named {variant}: there are {', '.join(variants)}")
        _change(config, variants[variant])
    return config


def _change(settings: Section, changes: Section) -> None:
    """Replace values of `settings`, and add those that it lacks, at any depth."""
    for name, value in changes.items():
        if isinstance(value, dict):
            _change(settings[name], value)
        else:
            settings[name] = value
