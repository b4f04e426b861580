"""Words of the questions: what is asked, what can be answered, and what somebody thinks who answers wrong."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from engine.trace.telling.words import flat

FOLDER = Path(__file__).parent


@functools.cache
def question_texts(language: str) -> dict[str, str]:
    """Key -> text, nested names joined by points.

    Raises:
        FileNotFoundError: no such language.
    """
    return flat(json.loads((FOLDER / f"words.{language}.json").read_text(encoding="utf-8")))
