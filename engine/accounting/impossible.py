"""Inputs that cannot be, each said in one sentence of every language: the sentences lie in `impossible.json`."""

from __future__ import annotations

from pathlib import Path

from engine.options.refusal import Refused, Sentence, Sentences

sentence = Sentences(Path(__file__).with_name("impossible.json"))


class ImpossibleInput(Refused):
    """An input that cannot be. `key` names the sentence."""

    def __init__(self, key: str, message: Sentence) -> None:
        super().__init__(message)
        self.key = key


def impossible(key: str, **values: object) -> ImpossibleInput:
    """Return the refusal with that key; `values` for what stands in braces there."""
    return ImpossibleInput(key, sentence(key, **values))
