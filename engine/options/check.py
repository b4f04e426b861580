"""The ranges of the table, checked."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from engine.options.table import table_of

LONGEST = 80  # characters of a wrong value in a sentence
MAX_WHOLE = (1 << 53) - 1  # of any whole number: it gets into a log, whose readers may have doubles only


def out_of_range(settings: Struct) -> str | None:
    """What is wrong with the first value that its option does not admit, one sentence; None: all are in range."""
    for name, row in table_of(type(settings)).items():
        value = getattr(settings, name)
        if value is None:
            continue
        beside = row.option.beside
        if beside is not None and getattr(settings, beside) is None:
            return f"{name} means something only beside {beside}: set {beside} too"
        if not row.option.admits(value):
            return f"{name} must be {row.option.range_text()}, not {_shown(value)}"
        if (whole := _too_large(value)) is not None:
            return f"{name} takes whole numbers between {-MAX_WHOLE} and {MAX_WHOLE}, not {_shown(whole)}"
    return None


def _shown(value: Any) -> str:
    if isinstance(value, (list, dict)) and len(value) > LONGEST:
        return f"{len(value)} of them"
    if isinstance(value, list):
        value = [one[:LONGEST] if isinstance(one, str) else one for one in value]  # repr would copy all of it
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _too_large(value: Any) -> int | None:
    """The first whole number of a value, or in it, that no log takes; None: there is none."""
    inner = value if isinstance(value, (list, dict)) else [value]
    return next((one for one in inner if isinstance(one, int) and abs(one) > MAX_WHOLE), None)


def over_served_max(settings: Struct) -> str | None:
    """The first value that is more than a server takes, one sentence; None: there is none."""
    for name, row in table_of(type(settings)).items():
        value, most = getattr(settings, name), row.option.served_max
        if most is not None and value is not None and value > most:
            return f"{name} {value} is over the limit of {most}"
    return None
