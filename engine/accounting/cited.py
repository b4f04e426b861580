"""Measurements published by others (`cited.toml`), shown beside computed numbers."""

from __future__ import annotations

import functools
from datetime import date
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

FILE = Path(__file__).with_name("cited.toml")


class CitedFact(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cited number or range. The page has its texts by id."""

    id: str
    value: float
    to: float | None = None
    unit: Literal["%", "s"]
    source: str
    dated: date


class CitedFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """File of cited facts."""

    fact: list[CitedFact]


@functools.cache
def cited_facts() -> tuple[CitedFact, ...]:
    """Return the facts in the order of the file."""
    return tuple(msgspec.toml.decode(FILE.read_bytes(), type=CitedFile).fact)
