"""`--model-config FILE`: engine settings of single models, where a server has several."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.cli.options import UserError
from app.ground.errors import AppError
from app.session.messages import parse_config
from engine.config import OF_SEVERAL, EngineConfig
from engine.options.check import did_you_mean, meant_by, out_of_range
from engine.options.table import table_of
from engine.options.toml_text import toml_tables


def add_model_config_option(group: Any) -> None:
    """`--model-config`."""
    group.add_argument(
        "--model-config",
        type=Path,
        metavar="FILE",
        help="TOML file with a table [NAME] of engine options per model, for example block_size = 8; other options are "
        "those of the command line",
    )


def model_configs(arguments: argparse.Namespace, names: Sequence[str], base: EngineConfig) -> dict[str, EngineConfig]:
    """Return the settings of models that have their own, by name. `names`: of the server's models.

    Raises:
        UserError: a file that cannot be read, a model that the server does not have, an option that there is not or
            whose value cannot be. Whether they work with the model is seen when it is opened.
    """
    path: Path | None = arguments.model_config
    if path is None:
        return {}
    try:
        tables = toml_tables(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"--model-config: {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"--model-config: {path}: {error}") from error
    found = {}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise UserError(f"--model-config: {path}: {name} stands in no table: write [MODEL] above it")
        if name not in names:
            here = ", ".join(names)
            raise UserError(f"--model-config: {path}: there is no model {name!r} here; this server has {here}")
        try:
            found[name] = _config(table, base)
        except ValueError as error:
            raise UserError(f"--model-config: {path}: [{name}] {error}") from error
    return found


def _config(table: Mapping[str, Any], base: EngineConfig) -> EngineConfig:
    """`base` with what the table says. Raises ValueError: one sentence, without its subject."""
    rows = table_of(EngineConfig)
    for option in table:
        if option not in rows or not rows[option].option.flag:
            meant = meant_by(option.replace("-", "_"), [name for name, row in rows.items() if row.option.flag])
            raise ValueError(f"has no option {option[:60]!r}" + did_you_mean(meant))
        if option in OF_SEVERAL:
            raise ValueError(f"{option} is the same for all models: say it on the command line")
    try:
        found = parse_config(dict(table), base)
    except AppError as error:
        raise ValueError(error.message.removeprefix("config: ")) from error
    if wrong := out_of_range(found):
        raise ValueError(wrong)
    return found
