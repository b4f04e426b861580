"""Why a session, a recording or a watched benchmark is closed: a word for the page, a sentence for everybody else."""

from __future__ import annotations

from typing import Literal, NamedTuple

from app.ground.errors import said
from engine.options.refusal import Sentence

Cause = Literal[
    "shutdown",
    "unused",
    "displaced",
    "deleted",
    "grown",
    "over",
    "unbuilt",
    "let_go",
    "mistake",
    "lab_over",
    "lab_idle",
]


class Closing(NamedTuple):
    """Why something is closed; `detail` is the mistake, one sentence in English."""

    cause: Cause
    detail: str = ""

    @property
    def sentence(self) -> Sentence:
        """Return the cause in every language."""
        return said(f"closing.{self.cause}", detail=self.detail)

    def __str__(self) -> str:
        return self.sentence
