"""Text in both languages of the page."""

from __future__ import annotations

from msgspec import Struct


class Text(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sentence in both languages."""

    en: str
    zh: str
