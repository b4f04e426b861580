"""A text in both languages of the page."""

from __future__ import annotations

from msgspec import Struct


class Text(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same sentence twice."""

    en: str
    zh: str
