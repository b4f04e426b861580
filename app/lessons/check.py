"""Check of a lesson, which runs it on its model in every language and verifies each figure in its texts."""

from __future__ import annotations

from collections.abc import Callable

from app.lessons.course import Course
from app.lessons.figures import figure_of
from app.lessons.lesson import Lesson, LessonError, Text
from app.lessons.lesson_engine import BareLessonEngine
from app.lessons.markup import OPEN, claims
from app.lessons.numbers import agrees, number_in
from app.lessons.parse import settings_of
from app.lessons.race import race_faults
from app.lessons.scene import Undecided
from app.models.engine_face import BuildEngine
from engine.model.shipped import as_seen


def check(lesson: Lesson, builder: Callable[[str], BuildEngine]) -> list[LessonError]:
    """Return the errors of a lesson by line. A failed run ends the check of its language.

    `builder` maps a model name to a builder of engines.
    """
    found: dict[tuple[int, str], LessonError] = {}
    for language in lesson.languages:
        for error in [*_check_in(lesson, language, builder), *race_faults(lesson, language, builder)]:
            found.setdefault((error.line, error.sentence), error)
    return sorted(found.values(), key=lambda error: error.line)


def changed_prompts(lesson: Lesson) -> list[LessonError]:
    """Return a notice for each prompt whose text its tokenizer changes."""
    return [
        LessonError(1, f"[{language}] prompts: {text!r} is seen as {seen!r}")
        for language in lesson.languages
        for text in lesson.prompts[language]
        if (seen := as_seen(lesson.model, text)) != text
    ]


def _check_in(lesson: Lesson, language: str, builder: Callable[[str], BuildEngine]) -> list[LessonError]:
    engine = BareLessonEngine(builder, settings_of(lesson, {})[0], lesson.model)
    course = Course(lesson, language, engine)
    found: list[LessonError] = []
    num_checked = 0
    try:
        course.advance()
        while True:
            end = min(course.at, len(lesson.items))
            for index in range(num_checked, end):
                item = lesson.items[index]
                if isinstance(item, Text):
                    found += _wrong_claims(course, index, item, language)
            num_checked = end
            if course.checkpoint is None:
                return found
            course.answer_right()
            course.advance()
    except LessonError as error:
        return [*found, LessonError(error.line, f"[{language}] {error.sentence}")]
    finally:
        engine.close()


def _wrong_claims(course: Course, index: int, item: Text, language: str) -> list[LessonError]:
    scene = course.scene(course.moment_before(index))
    found = []
    for claim in claims(item.texts[language]):
        claimed = number_in(claim.text)
        where = f"[{language}] “{claim.text}”"
        try:
            value = figure_of(scene, claim.figure, claim.arguments).value
        except Undecided as error:
            found.append(LessonError(item.line, f"{where}: {error}"))
            continue
        if claim.text != OPEN and claimed is not None and not agrees(claimed, value):
            name = ":".join([claim.figure, *claim.arguments])
            found.append(LessonError(item.line, f"{where} is stated, but {name} is {value:g}"))
    return found
