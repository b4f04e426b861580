"""The ranges of the table, checked."""

from __future__ import annotations

from msgspec import Struct

from engine.options.table import table_of

LONGEST = 80  # characters of a wrong value in a sentence


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
            shown = repr(value)
            shown = shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}…"
            return f"{name} must be {row.option.range_text()}, not {shown}"
    return None


def over_served_max(settings: Struct) -> str | None:
    """The first value that is more than a server takes, one sentence; None: there is none."""
    for name, row in table_of(type(settings)).items():
        value, most = getattr(settings, name), row.option.served_max
        if most is not None and value is not None and value > most:
            return f"{name} {value} is over the limit of {most}"
    return None
