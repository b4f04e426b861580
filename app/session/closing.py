"""Why a theater, a recording or a watched benchmark is closed: a word for the page, a sentence for everybody else."""

from __future__ import annotations

from typing import Literal, NamedTuple

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

SENTENCES: dict[Cause, str] = {
    "shutdown": "the server is shutting down",
    "unused": "it had no viewers for a while",
    "displaced": "it had no viewers and another one needed the place",
    "deleted": "the recording was deleted",
    "grown": "it has grown",
    "over": "the benchmark is over",
    "let_go": "somebody let its model go",
    "unbuilt": "it could not be built",
    "lab_over": "its follower needs it no more, or the presenter has ended the followers' runs",
    "lab_idle": "it was not used for a while, and another follower waited for one",
    "mistake": "the server made a mistake in it ({detail}); start another one",
}


class Closing(NamedTuple):
    """Why something is closed; `detail` is the mistake, one sentence in English."""

    cause: Cause
    detail: str = ""

    def __str__(self) -> str:
        return SENTENCES[self.cause].format(detail=self.detail)
