"""Table of options: a row per field of a settings struct, from its type, default and `Option`."""

from __future__ import annotations

import functools
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from engine.options.option import Option

Kind = Literal["choice", "switch", "integer", "number", "text", "list", "map"]
_KINDS: dict[Any, Kind] = {bool: "switch", int: "integer", float: "number", str: "text", list: "list", dict: "map"}


class OptionRow(Struct, frozen=True, kw_only=True):
    """Row of an option."""

    name: str
    kind: Kind
    optional: bool  # whether None is allowed
    default: Any
    option: Option
    choices: tuple[str, ...] = ()  # values of a choice
    items: tuple[type, ...] = ()  # type of a list's entries, or of a map's keys and values


Table = dict[str, OptionRow]


@functools.cache
def table_of(settings: type[Struct]) -> Table:
    """Return the rows of a settings struct by name, in order. Every field must have a default and an Option.

    Raises:
        TypeError: a field lacks its default or Option, or has an unsupported type.
    """
    hints = get_type_hints(settings, include_extras=True)
    return {field.name: _row(field.name, hints[field.name], _default(field)) for field in fields(settings)}


def _row(name: str, hint: Any, default: Any) -> OptionRow:
    options = [extra for extra in get_args(hint)[1:] if isinstance(extra, Option)]
    if get_origin(hint) is not Annotated or len(options) != 1 or default is NODEFAULT:
        raise TypeError(f"{name} needs a default and one Option: {name}: Annotated[..., Option(...)] = ...")
    plain = get_args(hint)[0]
    optional = get_origin(plain) in (Union, UnionType)
    if optional:
        (plain,) = (kind for kind in get_args(plain) if kind is not NoneType)
    is_choice = get_origin(plain) is Literal
    kind = "choice" if is_choice else _KINDS.get(get_origin(plain) or plain)
    if kind is None:
        raise TypeError(f"{name} has an unsupported type: {plain}")
    return OptionRow(
        name=name,
        kind=kind,
        optional=optional,
        default=default,
        option=options[0],
        choices=get_args(plain) if is_choice else (),
        items=() if is_choice else get_args(plain),
    )


def _default(field: Any) -> Any:
    return field.default if field.default_factory is NODEFAULT else field.default_factory()
