"""Checks of settings against the table: types and choices, ranges."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from engine.options.refusal import Sentence, sentence
from engine.options.table import Kind, OptionRow, table_of

LONGEST = 80  # characters of a quoted value
MAX_WHOLE = (1 << 53) - 1  # of any integer: settings are in logs, whose readers may only have doubles


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or _is_whole(value)


_HELD_BY: dict[type, Callable[[Any], bool]] = {
    int: _is_whole, float: _is_number, str: lambda value: isinstance(value, str),
}  # fmt: skip
_OF_KIND: dict[Kind, Callable[[Any, OptionRow], bool]] = {
    "choice": lambda value, row: value in row.choices,
    "switch": lambda value, row: isinstance(value, bool),
    "integer": lambda value, row: _is_whole(value),
    "number": lambda value, row: _is_number(value),
    "text": lambda value, row: isinstance(value, str),
    "list": lambda value, row: isinstance(value, list | tuple) and all(map(_HELD_BY[row.items[0]], value)),
    "map": lambda value, row: (
        isinstance(value, dict)
        and all(map(_HELD_BY[row.items[0]], value))
        and all(map(_HELD_BY[row.items[1]], value.values()))
    ),
}


def of_wrong_kind(settings: Struct) -> Sentence | None:
    """Return the error of the first value of a wrong type or not among its option's choices, one sentence.

    Return None if all are valid. An optional field may be None.
    """
    for name, row in table_of(type(settings)).items():
        value = getattr(settings, name)
        if (value is None and row.optional) or _OF_KIND[row.kind](value, row):
            continue
        items = " to ".join(kind.__name__ for kind in row.items)
        allowed = sentence(f"kind.{row.kind}", choices=", ".join(row.choices), items=items)
        if row.optional:
            allowed = sentence("kind.or_none", allowed=allowed)
        meant = did_you_mean(meant_by(value, row.choices)) if isinstance(value, str) else ""
        return sentence("kind", name=name, allowed=allowed, value=_shown(value), meant=meant)
    return None


def meant_by(word: str, known: Iterable[str]) -> list[str]:
    """Return known words that are similar to `word`, most similar first."""
    return difflib.get_close_matches(word, list(known), n=3, cutoff=0.7)


def did_you_mean(meant: list[str]) -> str:
    """Return a suffix that suggests the most similar word, or ""."""
    return sentence("meant", word=meant[0]) if meant else ""


def out_of_range(settings: Struct) -> Sentence | None:
    """Return the error of the first value outside its option's range, one sentence, or None."""
    for name, row in table_of(type(settings)).items():
        value = getattr(settings, name)
        if value is None:
            continue
        beside = row.option.beside
        if beside is not None and getattr(settings, beside) is None:
            return sentence("beside", name=name, beside=beside)
        if not row.option.admits(value):
            return sentence("range", name=name, range=row.option.range_text(), value=_shown(value))
        if (whole := _too_large(value)) is not None:
            return sentence("too_large", name=name, least=-MAX_WHOLE, most=MAX_WHOLE, value=_shown(whole))
    return None


def _shown(value: Any) -> str:
    if isinstance(value, (list, dict)) and len(value) > LONGEST:
        return sentence("several", n=len(value))
    if isinstance(value, list):
        value = [one[:LONGEST] if isinstance(one, str) else one for one in value]  # keep repr short
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _too_large(value: Any) -> int | None:
    """Return the first integer in a value that is over the limit of logs, or None."""
    inner = value if isinstance(value, (list, dict)) else [value]
    return next((one for one in inner if isinstance(one, int) and abs(one) > MAX_WHOLE), None)


def over_served_max(settings: Struct) -> Sentence | None:
    """Return the error of the first value over a server's limit, one sentence, or None."""
    for name, row in table_of(type(settings)).items():
        value, most = getattr(settings, name), row.option.served_max
        if most is not None and value is not None and value > most:
            return sentence("served_max", name=name, value=value, most=most)
    return None
