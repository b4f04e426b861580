"""Conversion of trace values to JSON, with bytes as hexadecimal text and arrays as nested lists."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np


def plain(value: Any) -> Any:
    """Convert to maps, lists, numbers and text. Maps of operations keep their `type`."""
    return _without_bytes(msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=_as_builtin, str_keys=True))


def to_json(value: Any) -> bytes:
    """Return `value` as JSON. Numbers that JSON lacks (nan, inf) become null."""
    return msgspec.json.encode(plain(value))


def _as_builtin(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, str):  # a `Sentence`
        return str(value)
    raise TypeError(f"no JSON form of {type(value).__name__}")


def _without_bytes(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {k: _without_bytes(v) for k, v in value.items()}
    if isinstance(value, list) and value and not isinstance(value[0], int | float):
        return [_without_bytes(v) for v in value]
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:  # a sum in a malicious trace
        return float(value)
    return value
