"""Words of what came of a class: heads of tables, and the page of it."""

from __future__ import annotations

import json
from pathlib import Path

_WORDS: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "results.json").read_text(encoding="utf-8"))


def words_in(language: str) -> dict[str, str]:
    """Key -> text, in English where there is no other."""
    return _WORDS.get(language.partition("-")[0], _WORDS["en"])
