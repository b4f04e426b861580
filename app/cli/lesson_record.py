"""`kvtheater lesson export` and `record`: lessons that are played without a model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli.options import UserError, file_errors, user_errors, write_atomically
from app.cli.terminal import say
from app.lessons.catalogue import Catalogue, lesson_files
from app.lessons.lesson import Lesson, LessonError

if TYPE_CHECKING:
    from app.lessons.transcript import Recorded


def add_parsers(actions: Any) -> None:
    exporting = actions.add_parser(
        "export", help="write a lesson as one HTML file, with its recorded run and its questions"
    )
    exporting.add_argument("lesson", metavar="NAME|FILE", help="name of a shipped lesson, or a file")
    exporting.add_argument("-o", "--out", type=Path, metavar="OUT", help="the HTML file (default: NAME.html)")
    exporting.add_argument("--language", metavar="CODE", help="write one language only (default: all)")
    exporting.add_argument("--force", action="store_true", help="overwrite the file")
    exporting.set_defaults(run=run_export)
    recording = actions.add_parser("record", help="record lessons for kvtheater replay --lessons, which needs no model")
    recording.add_argument(
        "lesson", nargs="*", metavar="NAME|FILE", help="lessons, or folders of them (default: all shipped)"
    )
    recording.add_argument("-o", "--out", type=Path, required=True, metavar="DIR", help="the folder to write into")
    recording.set_defaults(run=run_record)


def run_export(arguments: argparse.Namespace) -> int:
    """Write one HTML file."""
    from app.lessons.transcript import lesson_page
    from app.page.onefile import TooLarge

    lesson = _lesson_named(arguments.lesson)
    output: Path = arguments.out or Path(f"{lesson.id}.html")
    if output.exists() and not arguments.force:
        raise UserError(f"{output} exists already; choose another name, or --force to overwrite it")
    language = arguments.language
    if language and language not in lesson.languages:
        raise UserError(f"{lesson.id} is written in {', '.join(lesson.languages)}, not in {language!r}")
    with user_errors(TooLarge, of=lesson.id):
        page = lesson_page(_recorded(lesson, [language] if language else lesson.languages))
    write_atomically(output, page)
    say(f"{output}: {len(page):,} bytes")
    return 0


def run_record(arguments: argparse.Namespace) -> int:
    """Write a folder of recorded lessons."""
    from app.lessons.catalogue import shipped_folder
    from app.lessons.transcript import write_recorded

    names = arguments.lesson or [str(shipped_folder())]
    for lesson in [one for name in names for one in _lessons_named(name)]:
        for recorded in _recorded(lesson, lesson.languages):
            with file_errors("write", arguments.out):
                write_recorded(recorded, arguments.out)
        say(f"{lesson.id}: {', '.join(lesson.languages)}")
    say(f"show them with kvtheater replay --lessons {arguments.out}")
    return 0


def _recorded(lesson: Lesson, languages: list[str]) -> list[Recorded]:
    from app.lessons.recording import record_lesson
    from engine.model.errors import ModelError

    try:
        return record_lesson(lesson, languages)
    except ModelError as error:
        raise UserError(f"{lesson.path}: cannot load the lesson's model: {error}") from error
    except LessonError as error:
        raise UserError(f"{lesson.path}:{error.line}: {error.sentence}") from error


def _lessons_named(name: str) -> list[Lesson]:
    path = Path(name)
    return [_read(file) for file in lesson_files(path)] if path.is_dir() else [_lesson_named(name)]


def _lesson_named(name: str) -> Lesson:
    """Return the shipped lesson with this id, or the lesson in this file."""
    if lesson := Catalogue().get(name):
        return lesson
    path = Path(name)
    if not path.is_file():
        raise UserError(f"there is no lesson {name!r}, and no such file; kvtheater lesson list has the shipped ones")
    return _read(path)


def _read(path: Path) -> Lesson:
    from app.lessons.parse import read_lesson

    try:
        with file_errors("read", path):
            return read_lesson(path)
    except LessonError as error:
        raise UserError(f"{path}:{error.line}: {error.sentence}") from error
