"""Inputs that cannot be, each said in one sentence of every language: the sentences lie in `impossible.json`."""

from __future__ import annotations

import functools
import json
from pathlib import Path

FILE = Path(__file__).with_name("impossible.json")


class ImpossibleInput(ValueError):
    """The message is English; `said` has the other languages' by their codes. `key` names the sentence."""

    def __init__(self, key: str, said: dict[str, str]) -> None:
        super().__init__(said["en"])
        self.key = key
        self.said = {language: text for language, text in said.items() if language != "en"}


@functools.cache
def sentences() -> dict[str, dict[str, str]]:
    """key -> language -> sentence, with names in braces for what is put in."""
    found: dict[str, dict[str, str]] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def impossible(key: str, **values: str | float) -> ImpossibleInput:
    """Return the refusal with that key; `values` for what stands in braces there."""
    return ImpossibleInput(key, {language: text.format(**values) for language, text in sentences()[key].items()})
