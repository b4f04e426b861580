"""Refusals that people in a class read on their pages: the sentences lie in refusals.json, in each language."""

from __future__ import annotations

import json
from pathlib import Path

from app.ground.errors import AppError, Code

TEXTS: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "refusals.json").read_text(encoding="utf-8"))


def refusal(code: Code, key: str, **values: str | int) -> AppError:
    """Return the refusal with that key in refusals.json; `values` for what stands in braces there."""
    said = {language: text.format(**values) for language, text in TEXTS[key].items()}
    return AppError(code, said.pop("en"), said=said)
