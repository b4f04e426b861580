"""The table as plain data for a front end."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from engine.options.option import Control
from engine.options.table import OptionRow, table_of
from engine.options.words import OptionWords, languages, words_in


class OptionFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Row of the table as plain data, with the fields of OptionRow and Option that apply."""

    name: str
    kind: str
    default: Any
    optional: bool = False
    choices: tuple[str, ...] = ()
    ge: float | None = None
    gt: float | None = None
    le: float | None = None  # the smaller upper bound of engine and server
    strategies: tuple[str, ...] | None = None
    derived_under: tuple[str, ...] = ()
    beside: str | None = None
    may_change: bool = False
    control: Control | None = None


class OptionsPayload(Struct, frozen=True, kw_only=True):
    """Tables of options and their words."""

    tables: dict[str, list[OptionFacts]]  # rows of each settings struct, in order
    words: dict[str, dict[str, OptionWords]]  # by language, then by option


def tables_of(**settings: type[Struct]) -> dict[str, list[OptionFacts]]:
    """Return the rows of each given settings struct, by keyword."""
    return {name: [_facts(row) for row in table_of(kind).values()] for name, kind in settings.items()}


def options_payload(tables: dict[str, list[OptionFacts]]) -> OptionsPayload:
    """Return the tables with their words."""
    return OptionsPayload(tables=tables, words={language: words_in(language) for language in languages()})


def _facts(row: OptionRow) -> OptionFacts:
    option = row.option
    return OptionFacts(
        name=row.name,
        kind=row.kind,
        default=row.default,
        optional=row.optional,
        choices=row.choices,
        ge=option.ge,
        gt=option.gt,
        le=min((bound for bound in (option.le, option.served_max) if bound is not None), default=None),
        strategies=option.strategies,
        derived_under=option.derived_under,
        beside=option.beside,
        may_change=option.may_change,
        control=option.control,
    )
