"""Errors of the cache's consistency checks, each with a violated rule of docs/reference/trace-format.md.

The page translates the rule and its numbers into its language.
"""

from __future__ import annotations

from typing import Literal

from engine.trace.records import Objection

# The page has a sentence for each rule, in each of its languages.
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
    """A method was called in a state that does not allow the call. Nothing was changed."""

    def __init__(self, text: str, rule: Rule, **numbers: int | None) -> None:
        super().__init__(text)
        self.objection = Objection(rule=rule, text=text, **numbers)


class IntegrityError(AssertionError):
    """The counters, indices or tables of the cache contradict each other."""

    def __init__(self, text: str, rule: Rule, **numbers: int | None) -> None:
        super().__init__(text)
        self.objection = Objection(rule=rule, text=text, **numbers)


def ensure(condition: bool, message: str, rule: Rule, **numbers: int | None) -> None:
    """Raise IntegrityError with `message` unless `condition` is true."""
    if not condition:
        raise IntegrityError(message, rule, **numbers)


def objection_of(error: Exception) -> Objection:
    """Return the objection of an error of this module; for other errors, an objection with their message only."""
    found = getattr(error, "objection", None)
    return found if isinstance(found, Objection) else Objection(text=str(error))
