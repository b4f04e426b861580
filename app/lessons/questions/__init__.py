"""Questions made from the run: a rule finds the right answer in the log, and the wrong ones in how people think.

A rule is a function of a scene and its arguments; its name is what a lesson writes after `ask:`. Its words are
`question.<rule>` in `app/lessons/words.<language>.json`.
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
