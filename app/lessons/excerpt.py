"""Optional section as a separate lesson, which is possible if it begins with a new run."""

from __future__ import annotations

from math import ceil

from msgspec import structs

from app.lessons.lesson import Do, Lesson, Show, Text
from app.lessons.pace import minutes

MARK = "."  # separates the ids of lesson and section; no id contains it


def excerpt(lesson: Lesson, name: str) -> Lesson | None:
    """Return the section `name` as a lesson; None if it is not optional, or continues the previous run."""
    section = next((one for one in lesson.sections if one.optional and one.name == name), None)
    if section is None:
        return None
    first = next((item for item in section.items if not isinstance(item, Text | Show)), None)
    if not (isinstance(first, Do) and first.action.verb == "restart"):
        return None
    alone = structs.replace(lesson, id=f"{lesson.id}{MARK}{name}", sections=[structs.replace(section, optional=False)])
    return structs.replace(alone, minutes=ceil(minutes(alone)))
