"""Refusals shown to people in a class; the sentences are in refusals.json, in each language."""

from __future__ import annotations

from pathlib import Path

from app.ground.errors import AppError, Code
from engine.options.refusal import Sentences

sentence = Sentences(Path(__file__).with_name("refusals.json"))


def refusal(code: Code, key: str, **values: str | int) -> AppError:
    """Return the refusal with that key in refusals.json; `values` for what stands in braces there."""
    return AppError(code, sentence(key, **values))
