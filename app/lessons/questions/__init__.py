"""Questions generated from the run. A rule derives the right answer from the log, and wrong ones from misconceptions.

A rule is a function of a scene and arguments. Lessons use it by its name after `ask:`. Its texts are `question.<rule>`
in `app/lessons/words.<language>.json`.
"""

from __future__ import annotations

from app.lessons.questions import (
    attention,
    blocks,
    computing,
    costs,
    drafting,
    forgetting,
    instances,
    outcome,
    scale,
    scheduling,
    sharing,
    states,
    writing,
)
from app.lessons.questions.rules import RULES, ask, check_arguments

__all__ = [
    "RULES",
    "ask",
    "attention",
    "blocks",
    "check_arguments",
    "computing",
    "costs",
    "drafting",
    "forgetting",
    "instances",
    "outcome",
    "scale",
    "scheduling",
    "sharing",
    "states",
    "writing",
]
