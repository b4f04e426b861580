"""Refusals of impossible inputs, with a sentence per language in `impossible.json`."""

from __future__ import annotations

from pathlib import Path

from engine.options.refusal import Refused, Sentence, Sentences

sentence = Sentences(Path(__file__).with_name("impossible.json"))


class ImpossibleInput(Refused):
    """Impossible input. `key` names the sentence."""

    def __init__(self, key: str, message: Sentence) -> None:
        super().__init__(message)
        self.key = key


def impossible(key: str, **values: object) -> ImpossibleInput:
    """Return the refusal `key` with `values` for its placeholders."""
    return ImpossibleInput(key, sentence(key, **values))
