"""How long a lesson takes: reckoned from its text, its questions and its actions; no measurement of people.

Adults read non-fiction at 238 words a minute in silence, most at 175 to 300, and at 183 aloud (Brysbaert 2019, How many
words do we read per minute?, Journal of Memory and Language 109). What explains itself by numbers is read at the slow
end. The same content takes as long in other languages (Trauzettel-Klosinski and Dietz 2012, IReST, Investigative
Ophthalmology & Visual Science 53), and the shipped lessons have 1.4 Chinese characters for each English word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from app.lessons.lesson import Ask, Do, Item, Lesson, Section, Text, Work
from app.lessons.markup import said, tree

WORDS = 180  # a minute
CHARACTERS = 250  # Chinese ones
QUESTION = 0.6  # minutes, a class's habit and no measurement: read, think, answer, read the verdict
WORK = 1.2
PRESS = 0.15  # what one press does, is watched for some seconds
_HAN = re.compile(r"[\u3400-\u9fff]")
_WORD = re.compile(r"\w[\w.,'’-]*")
_READY = ("submit", "restart")  # go on with the next action by themselves, as the page does


def minutes(lesson: Lesson) -> float:
    """Return the minutes of the slowest language, without optional sections."""
    return _minutes(lesson, [section for section in lesson.sections if not section.optional])


def minutes_more(lesson: Lesson) -> float:
    """Return the minutes of the optional sections."""
    return _minutes(lesson, [section for section in lesson.sections if section.optional])


def _minutes(lesson: Lesson, sections: Sequence[Section]) -> float:
    items = [item for section in sections for item in section.items]
    asked = sum(isinstance(item, Ask) for item in items)
    worked = sum(isinstance(item, Work) for item in items)
    texts = [item.texts for item in items if isinstance(item, Text)]
    longest = max(reading("\n".join(said(tree(text[code])) for text in texts)) for code in lesson.languages)
    return longest + QUESTION * asked + WORK * worked + PRESS * _presses(items)


def _presses(items: Sequence[Item]) -> int:
    """Actions that the learner asks for."""
    led = [before for before, after in pairwise(items) if isinstance(before, Do) and isinstance(after, Do)]
    return sum(isinstance(item, Do) for item in items) - sum(one.action.verb in _READY for one in led)


def reading(text: str) -> float:
    """Minutes that a text takes to be read."""
    return len(_HAN.findall(text)) / CHARACTERS + len(_WORD.findall(_HAN.sub(" ", text))) / WORDS
