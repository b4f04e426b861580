"""Estimated duration of a lesson, from its text, questions and actions.

Adults read non-fiction silently at 238 words per minute (most of them at 175 to 300), and aloud at 183 (Brysbaert 2019,
How many words do we read per minute?, Journal of Memory and Language 109). For text with numbers, a rate at the slow
end is assumed. The same content takes the same time in other languages (Trauzettel-Klosinski and Dietz 2012, IReST,
Investigative Ophthalmology & Visual Science 53), and the shipped lessons have 1.4 Chinese characters per English word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from app.lessons.lesson import Ask, Do, Item, Lesson, Section, Text, Work
from app.lessons.markup import text_of, tree

WORDS = 180  # per minute
CHARACTERS = 250  # Chinese characters per minute
QUESTION = 0.6  # estimated minutes to read a question, answer it and read the verdict
WORK = 1.2  # estimated minutes for an exercise
PRESS = 0.15  # minutes to watch the effect of an action
_HAN = re.compile(r"[\u3400-\u9fff]")
_WORD = re.compile(r"\w[\w.,'’-]*")
_AUTOMATIC = ("submit", "restart")  # after these, the page performs a following action automatically


def minutes(lesson: Lesson) -> float:
    """Return the minutes in the slowest language, without optional sections."""
    return _minutes(lesson, [section for section in lesson.sections if not section.optional])


def minutes_more(lesson: Lesson) -> float:
    """Return the minutes of the optional sections."""
    return _minutes(lesson, [section for section in lesson.sections if section.optional])


def _minutes(lesson: Lesson, sections: Sequence[Section]) -> float:
    items = [item for section in sections for item in section.items]
    num_questions = sum(isinstance(item, Ask) for item in items)
    num_exercises = sum(isinstance(item, Work) for item in items)
    texts = [item.texts for item in items if isinstance(item, Text)]
    longest = max(reading("\n".join(text_of(tree(text[code])) for text in texts)) for code in lesson.languages)
    return longest + QUESTION * num_questions + WORK * num_exercises + PRESS * _num_clicks(items)


def _num_clicks(items: Sequence[Item]) -> int:
    """Return the number of the learner's clicks."""
    followed = [before for before, after in pairwise(items) if isinstance(before, Do) and isinstance(after, Do)]
    return sum(isinstance(item, Do) for item in items) - sum(one.action.verb in _AUTOMATIC for one in followed)


def reading(text: str) -> float:
    """Return the minutes of reading a text."""
    return len(_HAN.findall(text)) / CHARACTERS + len(_WORD.findall(_HAN.sub(" ", text))) / WORDS
