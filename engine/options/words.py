"""Label and help of each option, one file per language in `words/`."""

from __future__ import annotations

import functools
import json
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec
from msgspec import Struct


class OptionWords(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Name and description of an option."""

    label: str  # label of a control
    help: str  # sentence or phrase without a final period
    none: str = ""  # meaning of None, for an optional option
    number: str = ""  # text of a `usual` number, with the placeholder "{n}"
    values: dict[str, str] = {}  # labels of a choice's values, if not their names
    values_help: dict[str, str] = {}  # description of each value, a sentence with its period


Words = dict[str, OptionWords]


@functools.cache
def languages() -> tuple[str, ...]:
    """Return the available languages, English first."""
    names = (file.name.removesuffix(".json") for file in _folder().iterdir() if file.name.endswith(".json"))
    return tuple(sorted(names, key=lambda name: (name != "en", name)))


@functools.cache
def words_in(language: str) -> Words:
    """Return the words of every option by name; missing ones are in English."""
    file = _folder().joinpath(f"{language}.json")
    own = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    english = json.loads(_folder().joinpath("en.json").read_text(encoding="utf-8"))
    return msgspec.convert({name: {**words, **own.get(name, {})} for name, words in english.items()}, Words)


def option_texts(language: str) -> dict[str, str]:
    """Return the words of every option with flat keys: `option.<name>` is the label, and the suffixes `.help`, `.none`,
    `.number`, `.<value>` and `.<value>.help` denote the other words.
    """
    texts: dict[str, str] = {}
    for name, words in words_in(language).items():
        own = {"": words.label, ".help": words.help, ".none": words.none, ".number": words.number}
        own |= {f".{value}": text for value, text in words.values.items()}
        own |= {f".{value}.help": text for value, text in words.values_help.items()}
        texts |= {f"option.{name}{key}": text for key, text in own.items() if text}
    return texts


def _folder() -> Traversable:
    return files("engine.options").joinpath("words")
