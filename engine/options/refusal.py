"""Errors about settings, requests, reruns and models, with a sentence per language in `refusals.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Self


class Sentence(str):
    """English text with its translations, by language code."""

    translations: dict[str, str]

    @classmethod
    def of(cls, texts: dict[str, str]) -> Self:
        """Return the sentence with these texts, by language code including "en"."""
        found = cls(texts["en"])
        found.translations = {language: text for language, text in texts.items() if language != "en"}
        return found


class Refused(ValueError):
    """The input is refused; the message is one sentence. `translations` are by language code."""

    translations: dict[str, str]

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.translations = dict(message.translations) if isinstance(message, Sentence) else {}


class Sentences:
    """Sentences of a JSON file: key -> language -> text with placeholders in braces."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @cached_property
    def texts(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = json.loads(self._file.read_text(encoding="utf-8"))
        return found

    def __call__(self, key: str, **values: object) -> Sentence:
        """Return the sentence `key` with `values`, which may be sentences, for its placeholders."""
        return Sentence.of(
            {
                lang: text.format(**{name: _text(value, lang) for name, value in values.items()})
                for lang, text in self.texts[key].items()
            }
        )


sentence = Sentences(Path(__file__).with_name("refusals.json"))


def joined(parts: Iterable[str]) -> Sentence:
    """Join parts of a sentence with "and"."""
    listed = list(parts)
    return Sentence.of(
        {lang: word.join(str(_text(part, lang)) for part in listed) for lang, word in sentence.texts["and"].items()}
    )


def _text(value: object, language: str) -> object:
    if isinstance(value, Refused):
        return value.translations.get(language, str(value))
    return value.translations.get(language, value) if isinstance(value, Sentence) else value
