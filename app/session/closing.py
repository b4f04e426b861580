"""Causes for closing a session, a recording or a running benchmark, each with a sentence in every language."""

from __future__ import annotations

from typing import Literal, NamedTuple

from app.ground.errors import app_sentence
from engine.options.refusal import Sentence

Cause = Literal[
    "shutdown",
    "unused",
    "displaced",
    "deleted",
    "grown",
    "over",
    "unbuilt",
    "unloaded",
    "mistake",
    "lab_over",
    "lab_idle",
]


class Closing(NamedTuple):
    """Cause of a closing. `detail`: the error, in one English sentence."""

    cause: Cause
    detail: str = ""

    @property
    def sentence(self) -> Sentence:
        """Return the cause in every language."""
        return app_sentence(f"closing.{self.cause}", detail=self.detail)

    def __str__(self) -> str:
        return self.sentence
