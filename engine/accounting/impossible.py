"""Refusals of impossible inputs, with a sentence per language in `impossible.json`."""

from __future__ import annotations

from pathlib import Path

from engine.options.refusal import Refused, Sentence, Sentences

sentence = Sentences(Path(__file__).with_name("impossible.json"))


class ImpossibleInput(Refused):
    """Impossible input. `key`: key of the sentence."""

    def __init__(self, key: str, message: Sentence) -> None:
        super().__init__(message)
        self.key = key


def impossible(key: str, **values: object) -> ImpossibleInput:
    """Return the error of that key, with `values` for the placeholders of its sentence."""
    return ImpossibleInput(key, sentence(key, **values))
