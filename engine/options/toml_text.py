"""Reading TOML of a file that others wrote: one nested deeper than the parser goes is an error like any other."""

from __future__ import annotations

import tomllib
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
TOO_DEEP = "it is nested too deeply; tables and lists have a few levels"


def toml_tables(text: str) -> dict[str, Any]:
    """Return the tables of a text.

    Raises:
        tomllib.TOMLDecodeError: it is no TOML, or nested too deeply.
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError(TOO_DEEP) from None


def decode_toml(content: bytes, type: type[T]) -> T:
    """Return the content of a file, as a type.

    Raises:
        msgspec.DecodeError: it is no TOML, nested too deeply, or not of that type.
    """
    try:
        return msgspec.toml.decode(content, type=type)
    except RecursionError:
        raise msgspec.DecodeError(TOO_DEEP) from None
