"""Errors of the cache's guards: a sentence, and the violated rule with numbers for a page in any language.

The rules are those of docs/reference/trace-format.md.
"""

from __future__ import annotations

from typing import Literal

from engine.trace.records import Objection

# Each has a sentence of its own in both languages of the page.
Rule = Literal[
    "shared_write",
    "shared_promise",
    "stale_hit",
    "stale_index",
    "unknown_hash",
    "ref_count",
    "negative_count",
    "double_free",
    "free_queue",
    "filled",
    "hashed_twice",
    "hash_unheld",
    "empty_hash",
    "counter",
    "table",
    "promise",
    "unwritten",
    "swapped_twice",
    "swap_space",
    "no_blocks",
    "write_range",
    "has_blocks",
    "early_fork",
    "long_hit",
]


class MisuseError(ValueError):
    """A method was called where it must not be; nothing has changed."""

    def __init__(self, text: str, rule: Rule, **numbers: int | None) -> None:
        super().__init__(text)
        self.objection = Objection(rule=rule, text=text, **numbers)


class IntegrityError(AssertionError):
    """The bookkeeping contradicts itself; the message says where."""

    def __init__(self, text: str, rule: Rule, **numbers: int | None) -> None:
        super().__init__(text)
        self.objection = Objection(rule=rule, text=text, **numbers)


def ensure(condition: bool, otherwise: str, rule: Rule, **numbers: int | None) -> None:
    """Raise IntegrityError with the sentence `otherwise` unless `condition` holds."""
    if not condition:
        raise IntegrityError(otherwise, rule, **numbers)


def objection_of(error: Exception) -> Objection:
    """Return the objection of a guard's error; for any other error, its sentence alone."""
    found = getattr(error, "objection", None)
    return found if isinstance(found, Objection) else Objection(text=str(error))
