"""Transcript of a lesson with its recorded runs, from which the lesson is played without a model.

A transcript has all messages to a learner in one language, and the answer key of each question. Its runs are traces.
The files in the folder of a site or a server are

    <id>.<language>.json             the transcript
    <id>.<language>.<run>.kvtrace    a run; the first one is 0
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from app.lessons.allocator.exercise import Done
from app.lessons.answers import AskItem, Card, MendItem, PageItem, WorkItem
from app.lessons.course import TRIES, Course
from app.lessons.item_messages import page_items
from app.lessons.lesson import Ask, Kind, Lesson, LessonError
from app.lessons.lesson_engine import BareLessonEngine
from app.lessons.parse import settings_of
from app.lessons.prompt_order import Mended
from app.lessons.questions.rules import Evidence
from app.lessons.words import question_texts
from app.models.engine_face import BuildEngine
from app.page.onefile import MAX_LOG_BYTES, TooLarge, page_with, trace_bytes

FORMAT = 1
SUFFIX = ".json"


class Key(Struct, frozen=True, kw_only=True):
    """Answer key: the right option, its evidence in the log, and the misconception behind each option."""

    right: int
    evidence: Evidence
    whys: list[str | None]


class MendKey(Struct, frozen=True, kw_only=True):
    """Run of the solution of an exercise on prompt order, and the token ids of each line of its prompts."""

    run: Mended
    tokens: dict[str, list[int]]


class Transcript(Struct, frozen=True, kw_only=True):
    """Transcript of a lesson in one language. `items` contains no answers; `keys`, `works` and `mended` have them, by
    index of the item.
    """

    format: int = FORMAT
    lesson: str
    kind: Kind
    number: int
    language: str
    title: str
    minutes: int
    model: str
    num_sections: int
    tries: int
    words: dict[str, str]  # texts of the questions
    items: list[PageItem]
    keys: dict[str, Key]
    works: dict[str, list[Done]]  # the engine's operations
    num_runs: int
    num_optional: int = 0
    mended: dict[str, MendKey] = {}


class Recorded(Struct, frozen=True):
    """Transcript and its runs, as bytes of `.kvtrace` files."""

    transcript: Transcript
    runs: list[bytes]


def record(
    lesson: Lesson,
    language: str,
    builder: Callable[[str], BuildEngine],
    lock: AbstractContextManager[object] | None = None,
) -> Recorded:
    """Run a lesson to its end with right answers. For `builder` and `lock`, see `BareLessonEngine`.

    Raises:
        LessonError: the lesson has an error.
    """
    engine = BareLessonEngine(builder, settings_of(lesson, {})[0], lesson.model, lock)
    try:
        course = Course(lesson, language, engine)
        course.advance()
        while course.checkpoint is not None:
            course.answer_right()
            course.advance()
        return Recorded(_transcript(course), [trace_bytes(log) for log in course.logs])
    finally:
        engine.close()


def write_recorded(recorded: Recorded, folder: Path) -> None:
    """Write a transcript and its runs to a folder, creating it if necessary."""
    folder.mkdir(parents=True, exist_ok=True)
    transcript = recorded.transcript
    (folder / transcript_name(transcript.lesson, transcript.language)).write_bytes(msgspec.json.encode(transcript))
    for index, run in enumerate(recorded.runs):
        (folder / run_name(transcript.lesson, transcript.language, index)).write_bytes(run)


def read_transcript(path: Path) -> Transcript:
    """Read the transcript in a file.

    Raises:
        LessonError: the file is not a transcript, or has another format version.
        OSError: the file cannot be read.
    """
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Transcript)
    except msgspec.MsgspecError as error:
        raise LessonError(0, f"{path.name} is not a recorded lesson: {error}") from None
    if found.format != FORMAT:
        raise LessonError(0, f"{path.name} has format {found.format}; this version reads {FORMAT}; record it again")
    if path.name != (name := transcript_name(found.lesson, found.language)):
        raise LessonError(0, f"{path.name} must be named {name}, after its lesson and language")
    return found


def transcript_name(lesson: str, language: str) -> str:
    return f"{lesson}.{language}{SUFFIX}"


def run_name(lesson: str, language: str, index: int) -> str:
    return f"{lesson}.{language}.{index}.kvtrace"


def cards(transcripts: list[Transcript]) -> list[Card]:
    """Return the list entries of recorded lessons, sorted by number and id."""
    by_lesson: dict[str, list[Transcript]] = {}
    for transcript in sorted(transcripts, key=lambda one: (one.number, one.lesson, one.language)):
        by_lesson.setdefault(transcript.lesson, []).append(transcript)
    return [
        Card(
            id=name,
            kind=found[0].kind,
            number=found[0].number,
            minutes=found[0].minutes,
            model=found[0].model,
            title={transcript.language: transcript.title for transcript in found},
            num_questions=len(found[0].keys) + len(found[0].works) + len(found[0].mended),
            refused=None,
            recorded=True,
        )
        for name, found in by_lesson.items()
    ]


def _transcript(course: Course) -> Transcript:
    lesson, language = course.lesson, course.language
    items = page_items(course)
    keys: dict[str, Key] = {}
    works = {str(item.index): item.engine for item in items if isinstance(item, WorkItem) and item.engine is not None}
    for item in items:
        if isinstance(item, AskItem):
            question = course.questions[item.index]
            whys = [option.why for option in question.options]
            keys[str(item.index)] = Key(right=question.right, evidence=question.evidence, whys=whys)
    return Transcript(
        lesson=lesson.id,
        kind=lesson.kind,
        number=lesson.number,
        language=language,
        title=lesson.title[language],
        minutes=lesson.minutes,
        model=lesson.model,
        num_sections=len(lesson.sections),
        tries=TRIES if lesson.kind == "lesson" else 1,
        words=dict(_words(lesson, language)),
        items=[_unanswered(item) for item in items],
        keys=keys,
        works=works,
        num_runs=len(course.logs),
        num_optional=lesson.num_optional,
        mended={
            str(item.index): MendKey(run=item.right, tokens=course.line_tokens(item.index))
            for item in items
            if isinstance(item, MendItem) and item.right
        },
    )


def _unanswered(item: PageItem) -> PageItem:
    if isinstance(item, WorkItem):
        return structs.replace(item, given=[], over=False, engine=None)
    if isinstance(item, MendItem):
        return structs.replace(item, given=[], over=False, right=None)
    if not isinstance(item, AskItem):
        return item
    return structs.replace(item, given=[], whys=[], over=False, right=None, evidence=None)


def _words(lesson: Lesson, language: str) -> Iterator[tuple[str, str]]:
    """Yield the texts of the lesson's questions."""
    rules = {item.rule for item in lesson.items if isinstance(item, Ask)}
    for key, text in question_texts(language).items():
        room, _, rest = key.partition(".")
        if room != "question" or rest.partition(".")[0] in rules or "." not in rest:
            yield key, text


LESSON = "embedded-lesson"  # id of an element that static/js/state/without_server.js reads; runs: -<language>-<run>


def lesson_page(recorded: list[Recorded]) -> bytes:
    """Return the page with an embedded lesson in one or more languages.

    Raises:
        TooLarge: the runs have more than MAX_LOG_BYTES in total.
    """
    if (size := sum(len(run) for one in recorded for run in one.runs)) > MAX_LOG_BYTES:
        raise TooLarge(f"the lesson's runs have {size >> 20} MiB, and a page holds at most {MAX_LOG_BYTES >> 20}")
    transcripts = [one.transcript for one in recorded]
    (card,) = cards(transcripts)
    embedded = {LESSON: msgspec.json.encode({"card": card, "transcripts": {one.language: one for one in transcripts}})}
    for one in recorded:
        embedded |= {f"{LESSON}-{one.transcript.language}-{k}": run for k, run in enumerate(one.runs)}
    return page_with(next(iter(card.title.values())), embedded)
