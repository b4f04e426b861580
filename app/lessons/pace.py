"""How long a lesson takes: reckoned from its text, its questions and its actions; no measurement of people."""

from __future__ import annotations

import re

from app.lessons.lesson import Ask, Do, Lesson, Text, Work
from app.lessons.markup import said, tree

WORDS = 180  # a minute, of technical prose read once
CHARACTERS = 300  # Chinese ones
QUESTION = 0.6  # minutes: read, think, answer, read the verdict
WORK = 1.2
ACTION = 0.15
_HAN = re.compile(r"[\u3400-\u9fff]")


def minutes(lesson: Lesson) -> float:
    """Of the language that takes longest."""
    asked = sum(isinstance(item, Ask) for item in lesson.items)
    worked = sum(isinstance(item, Work) for item in lesson.items)
    done = sum(isinstance(item, Do) for item in lesson.items)
    texts = [item.texts for item in lesson.items if isinstance(item, Text)]
    longest = max(reading("\n".join(said(tree(text[code])) for text in texts)) for code in lesson.languages)
    return longest + QUESTION * asked + WORK * worked + ACTION * done


def reading(text: str) -> float:
    """Minutes that a text takes to be read."""
    return len(_HAN.findall(text)) / CHARACTERS + len(_HAN.sub(" ", text).split()) / WORDS
