"""Parsing and range checks of the URL parameters of /scale."""

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
    """Return the AppError for an error of the engine, in all languages."""
    return AppError(code, str(error), translations=error.translations if isinstance(error, ImpossibleInput) else None)


def with_own_presets(own: Sequence[Path]) -> Presets:
    """Return the shipped presets and those in a user's own files.

    Raises:
        AppError: a file cannot be read.
    """
    try:
        return presets(own)
    except ImpossibleInput as error:
        raise refused(error, "bad_request") from error


def one_of(name: str, query: Query, known: Mapping[str, T], default: str) -> T:
    """Return the element whose id is the query's value.

    Raises:
        AppError: no element has that id.
    """
    id = query.get(name, default)
    if id not in known:
        raise refusal("unknown", name=name, asked=id[:40], known=", ".join(known))
    return known[id]


def parse_float(query: Query, name: str, default: float, bounds: Bounds) -> float:
    """Return a number within its bounds.

    Raises:
        AppError: the value is not a number, or out of bounds.
    """
    return _within(query.get(name), name, default, bounds)


def parse_int(query: Query, name: str, default: int, bounds: Bounds, limit: int | None = None) -> int:
    """Return an integer within its bounds and at most `limit`.

    Raises:
        AppError: the value is not an integer, or out of bounds.
    """
    narrowed = bounds if limit is None else replace(bounds, max=min(limit, bounds.max or limit))
    found = _within(query.get(name), name, default, narrowed)
    if found != int(found):
        raise refusal("no_whole", name=name, asked=f"{found:g}")
    return int(found)


def parse_ints(query: Query, name: str, default: list[int], bounds: Bounds, limit: int | None = None) -> list[int]:
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
    return sorted({parse_int(MultiDict({name: part}), name, 0, bounds, limit) for part in parts})


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
