"""Texts of questions, of their answers, and of the misconception behind each wrong answer."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from app.lessons.questions.rules import Question, Value
from engine.trace.messages.words import bytes_text, content_of, filled, flat, in_language

FOLDER = Path(__file__).parent


@functools.cache
def question_texts(language: str) -> dict[str, str]:
    """Return the texts by key, with nested keys joined by dots. Missing ones are in English."""
    return in_language(language, lambda code: flat(content_of(FOLDER / f"words.{code}.json")))


def worded(question: Question, language: str) -> tuple[str, list[str]]:
    """Return the texts of a question and of its options."""
    texts = question_texts(language)
    stem = filled(texts[f"question.{question.rule}.stem"], _shown(question.values), language)
    if (seq := unnamed(question)) is not None:
        stem = filled(texts["question.of_sequence"], {"seq": seq, "stem": stem}, language)
    return stem, [
        filled(texts[one.text], _shown(one.values, one.text == "answer.bytes"), language) for one in question.options
    ]


def unnamed(question: Question) -> int | None:
    """Return the question's sequence if the run has several and the text does not name it."""
    is_named = "{seq}" in question_texts("en")[f"question.{question.rule}.stem"]
    seq = question.values.get("seq")
    return seq if question.several and isinstance(seq, int) and not is_named else None


def _shown(values: Mapping[str, Value], are_bytes: bool = False) -> dict[str, Value]:
    return {
        name: bytes_text(int(value)) if not isinstance(value, str) and (are_bytes or name.endswith("_bytes")) else value
        for name, value in values.items()
    }
