"""Options that several commands share; names follow vLLM's."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from msgspec import Struct

from engine.config import ConfigError, EngineConfig, SamplingParams
from engine.options.check import did_you_mean, similar_words
from engine.options.table import OptionRow, table_of
from engine.options.words import OptionWords, words_in


class UserError(Exception):
    """A mistake of the user: printed as one sentence without a traceback; exit status 2."""


@contextmanager
def file_errors(verb: str, path: Path | str | None) -> Iterator[None]:
    """Convert an `OSError` of the block to a sentence such as "cannot read FILE: Permission denied".

    Raises:
        UserError: an `OSError` of the block.
    """
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot {verb} {path}: {error.strerror or error}") from error


@contextmanager
def user_errors(*kinds: type[Exception], of: object = "") -> Iterator[None]:
    """Convert errors of these kinds to user errors. `of`: the option or file that the sentence begins with.

    Raises:
        UserError: an error of the block.
    """
    try:
        yield
    except kinds as error:
        raise UserError(f"{of}: {error}" if of else str(error)) from error


def write_atomically(output: Path, page: bytes) -> None:
    """Write a file completely or not at all.

    Raises:
        UserError: it cannot be written.
    """
    unfinished = output.with_name(output.name + ".part")
    with file_errors("write", output):
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(page)
            unfinished.replace(output)
        finally:
            unfinished.unlink(missing_ok=True)


class Parser(argparse.ArgumentParser):
    """Argument parser that suggests the closest option for an unknown one."""

    def parse_known_args(  # type: ignore[override]  # argparse declares overloads
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:  # reported here, where this command's options are known
            flag = next((one for one in unknown if one.startswith("-")), None)
            meant = similar_words(flag.split("=")[0], self._option_string_actions) if flag else []
            self.error(f"unrecognized arguments: {' '.join(unknown)}" + did_you_mean(meant))
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Exit with one line, without argparse's usage: that of `serve` fills the screen and hides the message."""
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        meant = [*similar_words(str(value), choices), *_with_subcommand(action, str(value))]
        name = action.metavar or "/".join(action.option_strings) or action.dest
        raise argparse.ArgumentError(
            None, f"{name}: there is no {value!r}{did_you_mean(meant[:1])} (choose from {', '.join(choices)})"
        )


def _with_subcommand(action: argparse.Action, value: str) -> list[str]:
    """Return the commands that have a subcommand like `value`: for `explain`, `trace explain`."""
    if not isinstance(action, argparse._SubParsersAction):
        return []
    return [
        f"{name} {command}"
        for name, parser in action.choices.items()
        for inner in parser._actions
        if isinstance(inner, argparse._SubParsersAction)
        for command in similar_words(value, inner.choices)
    ]


def add_command(commands: Any, name: str, help: str, examples: str) -> argparse.ArgumentParser:
    """Add and return a command whose --help ends with examples."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=help[:1].upper() + help[1:] + ".",
        epilog="examples:\n" + examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add --dtype and --device."""
    group = parser.add_argument_group("model")
    group.add_argument(
        "--dtype",
        default="auto",
        help="dtype of the model: auto, float32, float16 or bfloat16; on the CPU also bfloat16-weights, int8-weights "
        "or int4-weights: a half, a quarter or a seventh of float32's bytes, computed in float32 (default: auto)",
    )
    group.add_argument("--device", default="auto", help="where to compute: auto, cpu or cuda (default: auto)")


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """Add a flag for each field of EngineConfig that has one."""
    add_options(parser.add_argument_group("engine"), EngineConfig)


def add_sampling_options(parser: argparse.ArgumentParser) -> None:
    """Add a flag for each field of SamplingParams that has one."""
    add_options(parser.add_argument_group("sampling"), SamplingParams)


def add_options(group: Any, settings: type[Struct]) -> None:
    """Add the flags of the settings' table. A flag is the field's name with dashes."""
    words = words_in("en")
    for name, row in table_of(settings).items():
        if row.option.flag:
            group.add_argument(f"--{name.replace('_', '-')}", **_argument(row, words[name]))


def _argument(row: OptionRow, words: OptionWords) -> dict[str, Any]:
    """Return the argparse arguments of an option."""
    help = words.help[:1].lower() + words.help[1:]
    several = row.kind in ("list", "map")
    note = "may be repeated" if several else f"default: {_shown(row.default, words)}"
    common: dict[str, Any] = {
        "default": [] if several else row.default,
        "help": f"{help} ({note})".replace("%", "%%"),
    }
    match row.kind:
        case "choice":
            return {**common, "choices": row.choices}
        case "switch":
            return {**common, "action": argparse.BooleanOptionalAction}
        case "list":
            return {**common, "action": "append", "type": row.items[0], "metavar": _METAVARS[row.items[0]]}
        case "map":
            return {**common, "action": "append", "type": _pair(*row.items), "metavar": "ID=X"}
        case _:
            kind = {"integer": int, "number": float, "text": str}[row.kind]
            return {**common, "type": kind, "metavar": _METAVARS[kind]}


def _shown(default: Any, words: OptionWords) -> str:
    if default is None:
        return words.none
    if isinstance(default, bool):
        return "on" if default else "off"
    return f"{default:g}" if isinstance(default, float) else str(default)


_METAVARS: dict[Any, str] = {int: "N", float: "X", str: "TEXT"}


def _pair(key_type: Callable[[str], Any], value_type: Callable[[str], Any]) -> Callable[[str], tuple[Any, Any]]:
    def parse(text: str) -> tuple[Any, Any]:
        try:
            key, value = text.split("=")
            return key_type(key), value_type(value)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not ID=X, as in 7=-2.5") from None

    return parse


def engine_config(arguments: argparse.Namespace) -> EngineConfig:
    """Return the engine configuration of the options."""
    return EngineConfig(**_field_values(arguments, EngineConfig))


def sampling_params(arguments: argparse.Namespace) -> SamplingParams:
    """Return the sampling parameters of the options.

    Raises:
        UserError: a value out of range.
    """
    with user_errors(ConfigError):
        return SamplingParams(**_field_values(arguments, SamplingParams)).checked()


def _field_values(arguments: argparse.Namespace, settings: type[Struct]) -> dict[str, Any]:
    """Return the arguments that set fields of `settings`. A map's list of pairs becomes a dict."""
    rows = {name: row for name, row in table_of(settings).items() if row.option.flag}
    values = {name: value for name, value in vars(arguments).items() if name in rows}
    return {name: dict(value) if rows[name].kind == "map" else value for name, value in values.items()}
