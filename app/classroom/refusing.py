"""Errors shown to members of a class. Their sentences are in refusals.json, in every language."""

from __future__ import annotations

from pathlib import Path

from app.ground.errors import AppError, Code
from engine.options.refusal import Sentences

sentence = Sentences(Path(__file__).with_name("refusals.json"))


def refusal(code: Code, key: str, **values: str | int) -> AppError:
    """Return an error with the sentence `key` of refusals.json. `values` replace its placeholders in braces."""
    return AppError(code, sentence(key, **values))
