"""Refusals of settings, requests, re-runs and models, each one sentence in every language, in `refusals.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Self


class Sentence(str):
    """English text with its translations, by language code."""

    said: dict[str, str]

    @classmethod
    def of(cls, texts: dict[str, str]) -> Self:
        """Return the sentence of these texts by language code, English among them."""
        made = cls(texts["en"])
        made.said = {language: text for language, text in texts.items() if language != "en"}
        return made


class Refused(ValueError):
    """An input that cannot be served; the message is one sentence. `said` has it in other languages, by their codes."""

    said: dict[str, str]

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.said = dict(message.said) if isinstance(message, Sentence) else {}


class Sentences:
    """The sentences of a JSON file: key -> language -> text, with names in braces for what is put in."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @cached_property
    def texts(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = json.loads(self._file.read_text(encoding="utf-8"))
        return found

    def __call__(self, key: str, **values: object) -> Sentence:
        """Return the sentence with that key; `values` for what stands in braces there, sentences themselves or not."""
        return Sentence.of(
            {
                lang: text.format(**{name: _text(value, lang) for name, value in values.items()})
                for lang, text in self.texts[key].items()
            }
        )


sentence = Sentences(Path(__file__).with_name("refusals.json"))


def joined(parts: Iterable[str]) -> Sentence:
    """Return parts of a sentence as a list in words."""
    listed = list(parts)
    return Sentence.of(
        {lang: word.join(str(_text(part, lang)) for part in listed) for lang, word in sentence.texts["and"].items()}
    )


def _text(value: object, language: str) -> object:
    if isinstance(value, Refused):
        return value.said.get(language, str(value))
    return value.said.get(language, value) if isinstance(value, Sentence) else value
