"""`--model-config FILE`: engine settings per model, for servers with several models."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.cli.options import UserError
from app.ground.errors import AppError
from app.session.messages import parse_config
from engine.config import INSTANCE_SETTINGS, EngineConfig
from engine.options.check import did_you_mean, out_of_range, similar_words
from engine.options.table import table_of
from engine.options.toml_text import toml_tables


def add_model_config_option(group: Any) -> None:
    """Add the option `--model-config`."""
    group.add_argument(
        "--model-config",
        type=Path,
        metavar="FILE",
        help="TOML file with a table [MODEL] of engine options for a model, for example block_size = 8; the command "
        "line sets all other options",
    )


def model_configs(arguments: argparse.Namespace, names: Sequence[str], base: EngineConfig) -> dict[str, EngineConfig]:
    """Return model name -> settings, for the models that have a table. `names`: the server's models.

    The settings are checked against a model when it is opened.

    Raises:
        UserError: the file cannot be read, or names an unknown model or option, or has an invalid value.
    """
    path: Path | None = arguments.model_config
    if path is None:
        return {}
    try:
        tables = toml_tables(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"--model-config: cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"--model-config: {path}: {error}") from error
    found = {}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise UserError(f"--model-config: {path}: {name} is in no table; write [MODEL] above it")
        if name not in names:
            known = ", ".join(names)
            raise UserError(f"--model-config: {path}: this server has no model {name!r}; its models are {known}")
        try:
            found[name] = _config(table, base)
        except ValueError as error:
            raise UserError(f"--model-config: {path}: [{name}]: {error}") from error
    return found


def _config(table: Mapping[str, Any], base: EngineConfig) -> EngineConfig:
    """Return `base` with the options of a table. Raises ValueError for an unknown option or an invalid value."""
    rows = table_of(EngineConfig)
    for option in table:
        if option not in rows or not rows[option].option.flag:
            meant = similar_words(option.replace("-", "_"), [name for name, row in rows.items() if row.option.flag])
            raise ValueError(f"there is no option {option[:60]!r}" + did_you_mean(meant))
        if option in INSTANCE_SETTINGS:
            raise ValueError(f"{option} must be the same for all models; set it on the command line")
    try:
        found = parse_config(dict(table), base)
    except AppError as error:
        raise ValueError(error.message.removeprefix("config: ")) from error
    if wrong := out_of_range(found):
        raise ValueError(wrong)
    return found
