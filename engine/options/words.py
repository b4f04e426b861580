"""Label and help of each option, one file a language: another language is another file in `words/`."""

from __future__ import annotations

import functools
import json
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec
from msgspec import Struct


class OptionWords(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Name and description of an option."""

    label: str  # beside a control
    help: str  # one sentence or phrase, without a full stop at its end
    none: str = ""  # what None means, for an option that may be None
    number: str = ""  # a number of its `usual` ones, where it needs words: "{n}" is put in
    values: dict[str, str] = {}  # what the values of a choice are called, where their own names do not do
    values_help: dict[str, str] = {}  # what each of them does, a sentence with its full stop


Words = dict[str, OptionWords]


@functools.cache
def languages() -> tuple[str, ...]:
    """Return the languages that there are words in, English first."""
    names = (file.name.removesuffix(".json") for file in _folder().iterdir() if file.name.endswith(".json"))
    return tuple(sorted(names, key=lambda name: (name != "en", name)))


@functools.cache
def words_in(language: str) -> Words:
    """Return the words of every option by its name, in English what the language lacks of one."""
    file = _folder().joinpath(f"{language}.json")
    own = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    english = json.loads(_folder().joinpath("en.json").read_text(encoding="utf-8"))
    return msgspec.convert({name: {**words, **own.get(name, {})} for name, words in english.items()}, Words)


def option_texts(language: str) -> dict[str, str]:
    """Return the words of every option under flat keys: `option.<name>` is the label, `.help`, `.none`, `.number`,
    `.<value>` and `.<value>.help` after it are the others.
    """
    texts: dict[str, str] = {}
    for name, words in words_in(language).items():
        told = {"": words.label, ".help": words.help, ".none": words.none, ".number": words.number}
        told |= {f".{value}": text for value, text in words.values.items()}
        told |= {f".{value}.help": text for value, text in words.values_help.items()}
        texts |= {f"option.{name}{key}": text for key, text in told.items() if text}
    return texts


def _folder() -> Traversable:
    return files("engine.options").joinpath("words")
