"""Parsing of numeric URL parameters of /scale with range checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict, TypeVar

from msgspec.structs import replace
from werkzeug.datastructures import MultiDict

from app.ground.errors import AppError, Code
from app.scale.bounds import Bounds
from engine.accounting.impossible import ImpossibleInput, impossible
from engine.accounting.presets import Presets, presets

Query = MultiDict[str, str]
T = TypeVar("T")
MAX_VALUES = 12  # of a list


class ListOption(TypedDict):
    """Option of a list of a section."""

    id: str
    name: str


def refusal(key: str, code: Code = "bad_request", **values: str | float) -> AppError:
    """Return the error of an impossible input, with a sentence per language."""
    return refused(impossible(key, **values), code)


def refused(error: ValueError, code: Code = "refused") -> AppError:
    """Convert an error of another package, in all its languages."""
    return AppError(code, str(error), translations=error.translations if isinstance(error, ImpossibleInput) else None)


def known_of(own: Sequence[Path]) -> Presets:
    """Return the presets, with a user's own files.

    Raises:
        AppError: a file cannot be read.
    """
    try:
        return presets(own)
    except ImpossibleInput as error:
        raise refused(error, "bad_request") from error


def one_of(name: str, query: Query, known: Mapping[str, T], usual: str) -> T:
    """Return the chosen element of a list, by id.

    Raises:
        AppError: the list has no such id.
    """
    id = query.get(name, usual)
    if id not in known:
        raise refusal("unknown", name=name, asked=id[:40], known=", ".join(known))
    return known[id]


def real(query: Query, name: str, default: float, bounds: Bounds) -> float:
    """Return a number within its bounds.

    Raises:
        AppError: it is none.
    """
    return _within(query.get(name), name, default, bounds)


def whole(query: Query, name: str, default: int, bounds: Bounds, most: int | None = None) -> int:
    """Return a whole number within its bounds, and of at most `most`.

    Raises:
        AppError: it is none.
    """
    narrowed = bounds if most is None else replace(bounds, max=min(most, bounds.max or most))
    found = _within(query.get(name), name, default, narrowed)
    if found != int(found):
        raise refusal("no_whole", name=name, asked=f"{found:g}")
    return int(found)


def wholes(query: Query, name: str, default: list[int], bounds: Bounds, most: int | None = None) -> list[int]:
    """Return comma-separated integers, without duplicates and sorted.

    Raises:
        AppError: an element is invalid, or there are too many.
    """
    text = query.get(name)
    if text is None:
        return default
    parts = text.split(",")
    if len(parts) > MAX_VALUES:
        raise refusal("values", name=name, most=MAX_VALUES, number=len(parts))
    return sorted({whole(MultiDict({name: part}), name, 0, bounds, most) for part in parts})


def _within(text: str | None, name: str, default: float, bounds: Bounds) -> float:
    if text is None:
        return default
    try:
        found = float(text)
    except ValueError:
        raise refusal("no_number", name=name, asked=text[:40]) from None
    low, high = bounds.min or 0, bounds.max or 0
    if not low <= found <= high:
        raise refusal("between", name=name, low=low, high=high, value=found)
    return found
