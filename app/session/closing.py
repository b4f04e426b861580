"""Cause for which a session, a recording or a running benchmark is closed: a word for the page, and a sentence."""

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
    """Cause of a closing. `detail`: an error, in one English sentence."""

    cause: Cause
    detail: str = ""

    @property
    def sentence(self) -> Sentence:
        """Return the cause in every language."""
        return app_sentence(f"closing.{self.cause}", detail=self.detail)

    def __str__(self) -> str:
        return self.sentence
