"""Saved queries: each has an id, a title in each language, and its SQL."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

FILE = Path(__file__).with_name("questions.toml")


class Question(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Saved query."""

    id: str
    observed: bool = False  # whether it is for a monitored server's log, not for an engine's own
    en: str
    zh: str
    sql: str


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    question: list[Question]


@cache
def questions() -> dict[str, Question]:
    """Return the saved queries by id, in the order of the file."""
    return {one.id: one for one in msgspec.toml.decode(FILE.read_bytes(), type=_File).question}
