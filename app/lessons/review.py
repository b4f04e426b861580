"""Repetition of questions on the run of their own lesson, without its texts.

It is used for questions that the run of no later lesson decides.
"""

from __future__ import annotations

from collections.abc import Collection
from math import ceil

from msgspec import structs

from app.lessons.lesson import REVIEW, Ask, Do, Item, Lesson, Show
from app.lessons.pace import minutes

COMPUTING = ("prefill", "step", "run")


def review(lesson: Lesson, questions: Collection[int]) -> Lesson:
    """Return a lesson with the questions at the items `questions`, and the actions up to the one that decides the last.

    It is empty if the lesson has changed and has none of these questions.
    """
    items = lesson.items
    wanted = {index for index in questions if index < len(items) and isinstance(items[index], Ask)}
    last = max(wanted, default=-1)
    decided = [i for i, item in enumerate(items) if i > last and _computes(item)]
    end = decided[0] if decided and wanted else last
    sections, first = [], 0
    for section in lesson.sections:
        numbered = list(enumerate(section.items, first))
        chosen = [_again(lesson, i, item) for i, item in numbered if i <= end and _belongs(i, item, wanted)]
        first += len(section.items)
        if chosen:
            sections.append(structs.replace(section, items=chosen))
    reduced = structs.replace(lesson, id=REVIEW, sections=sections)
    return structs.replace(reduced, minutes=ceil(minutes(reduced)))


def _computes(item: Item) -> bool:
    return isinstance(item, Do) and item.action.verb in COMPUTING


def _belongs(index: int, item: Item, wanted: set[int]) -> bool:
    return index in wanted or isinstance(item, Show) or (isinstance(item, Do) and item.action.verb != "race")


def _again(lesson: Lesson, index: int, item: Item) -> Item:
    return structs.replace(item, again=f"{lesson.id}/{index}") if isinstance(item, Ask) else item
