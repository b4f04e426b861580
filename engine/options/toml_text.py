"""Reader of untrusted TOML that reports excessive nesting as an error."""

from __future__ import annotations

import tomllib
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
TOO_DEEP = "it is nested too deeply"


def toml_tables(text: str) -> dict[str, Any]:
    """Parse a TOML text.

    Raises:
        tomllib.TOMLDecodeError: the text is not TOML, or nested too deeply.
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError(TOO_DEEP) from None


def decode_toml(content: bytes, type: type[T]) -> T:
    """Decode the content of a TOML file to a type.

    Raises:
        msgspec.DecodeError: the content is not TOML, nested too deeply, or not of that type.
    """
    try:
        return msgspec.toml.decode(content, type=type)
    except RecursionError:
        raise msgspec.DecodeError(TOO_DEEP) from None
