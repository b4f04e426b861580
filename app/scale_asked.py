"""Numbers in the address of what the page /scale asks for, each within its range, or a sentence."""

from __future__ import annotations

from werkzeug.datastructures import MultiDict

from app.errors import AppError

Asked = MultiDict[str, str]
MOST_VALUES = 12  # of a list


def real(asked: Asked, name: str, default: float, low: float, high: float) -> float:
    """A number within [low, high].

    Raises:
        AppError: it is none.
    """
    return _within(asked.get(name), name, default, low, high)


def whole(asked: Asked, name: str, default: int, low: int, high: int) -> int:
    """A whole number within [low, high].

    Raises:
        AppError: it is none.
    """
    found = _within(asked.get(name), name, default, low, high)
    if found != int(found):
        raise AppError("bad_request", f"{name} is a whole number, not {found:g}")
    return int(found)


def wholes(asked: Asked, name: str, default: list[int], low: int, high: int) -> list[int]:
    """Whole numbers with commas between, each once and in order.

    Raises:
        AppError: one is none, or there are too many.
    """
    text = asked.get(name)
    if text is None:
        return default
    parts = text.split(",")
    if len(parts) > MOST_VALUES:
        raise AppError("bad_request", f"{name} has at most {MOST_VALUES} values, not {len(parts)}")
    return sorted({whole(MultiDict({name: part}), name, 0, low, high) for part in parts})


def _within(text: str | None, name: str, default: float, low: float, high: float) -> float:
    if text is None:
        return default
    try:
        found = float(text)
    except ValueError:
        raise AppError("bad_request", f"{name} is a number, not {text[:40]!r}") from None
    if not low <= found <= high:
        raise AppError("bad_request", f"{name} lies from {low:g} to {high:g}, not at {found:g}")
    return found
