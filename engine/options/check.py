"""Checks of settings against the table: types, choices and ranges."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from engine.options.refusal import Sentence, sentence
from engine.options.table import Kind, OptionRow, table_of

MAX_QUOTED = 80  # maximum number of characters of a quoted value
MAX_WHOLE = (1 << 53) - 1  # maximum of any integer: settings are in logs, whose readers may only have doubles


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or _is_whole(value)


_IS_ITEM: dict[type, Callable[[Any], bool]] = {
    int: _is_whole, float: _is_number, str: lambda value: isinstance(value, str),
}  # fmt: skip
_IS_KIND: dict[Kind, Callable[[Any, OptionRow], bool]] = {
    "choice": lambda value, row: value in row.choices,
    "switch": lambda value, row: isinstance(value, bool),
    "integer": lambda value, row: _is_whole(value),
    "number": lambda value, row: _is_number(value),
    "text": lambda value, row: isinstance(value, str),
    "list": lambda value, row: isinstance(value, list | tuple) and all(map(_IS_ITEM[row.items[0]], value)),
    "map": lambda value, row: (
        isinstance(value, dict)
        and all(map(_IS_ITEM[row.items[0]], value))
        and all(map(_IS_ITEM[row.items[1]], value.values()))
    ),
}


def of_wrong_kind(settings: Struct) -> Sentence | None:
    """Return an error for the first value that has a wrong type or is not among its option's choices, or None.

    An optional field may be None.
    """
    for name, row in table_of(type(settings)).items():
        value = getattr(settings, name)
        if (value is None and row.optional) or _IS_KIND[row.kind](value, row):
            continue
        items = " to ".join(kind.__name__ for kind in row.items)
        allowed = sentence(f"kind.{row.kind}", choices=", ".join(row.choices), items=items)
        if row.optional:
            allowed = sentence("kind.or_none", allowed=allowed)
        meant = did_you_mean(similar_words(value, row.choices)) if isinstance(value, str) else ""
        return sentence("kind", name=name, allowed=allowed, value=_shown(value), meant=meant)
    return None


def similar_words(word: str, known: Iterable[str]) -> list[str]:
    """Return known words that are similar to `word`, most similar first."""
    return difflib.get_close_matches(word, list(known), n=3, cutoff=0.7)


def did_you_mean(words: list[str]) -> str:
    """Return a suffix that suggests the first of `words`, or ""."""
    return sentence("meant", word=words[0]) if words else ""


def out_of_range(settings: Struct) -> Sentence | None:
    """Return an error for the first value outside its option's range, or None."""
    for name, row in table_of(type(settings)).items():
        value = getattr(settings, name)
        if value is None:
            continue
        beside = row.option.beside
        if beside is not None and getattr(settings, beside) is None:
            return sentence("beside", name=name, beside=beside)
        if not row.option.admits(value):
            return sentence("range", name=name, range=row.option.range_text(), value=_shown(value))
        if (number := _too_large(value)) is not None:
            return sentence("too_large", name=name, least=-MAX_WHOLE, most=MAX_WHOLE, value=_shown(number))
    return None


def _shown(value: Any) -> str:
    if isinstance(value, (list, dict)) and len(value) > MAX_QUOTED:
        return sentence("several", n=len(value))
    if isinstance(value, list):
        value = [one[:MAX_QUOTED] if isinstance(one, str) else one for one in value]  # bounds the time of repr
    text = repr(value)
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}…"


def _too_large(value: Any) -> int | None:
    """Return the first integer in a value whose magnitude exceeds MAX_WHOLE, or None."""
    items = value if isinstance(value, (list, dict)) else [value]
    return next((one for one in items if isinstance(one, int) and abs(one) > MAX_WHOLE), None)


def over_served_max(settings: Struct) -> Sentence | None:
    """Return an error for the first value that exceeds a server's limit, or None."""
    for name, row in table_of(type(settings)).items():
        value, limit = getattr(settings, name), row.option.served_max
        if limit is not None and value is not None and value > limit:
            return sentence("served_max", name=name, value=value, most=limit)
    return None
