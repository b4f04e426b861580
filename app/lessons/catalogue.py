"""Lessons of a server: shipped ones, and those of a user's folder."""

from __future__ import annotations

import threading
from math import ceil
from pathlib import Path

from msgspec import structs

from app.ground.paths import static_dir
from app.lessons.answers import Card
from app.lessons.lesson import Ask, Do, Lesson, LessonError, Show, Text, Work
from app.lessons.pace import minutes
from app.lessons.parse import read_lesson

SUFFIX = ".md"
MARK = "."  # separates the ids of lesson and section; no id contains it


def shipped_folder() -> Path:
    """Return the folder of shipped lessons."""
    return static_dir() / "lessons"


def lesson_files(folder: Path) -> list[Path]:
    """Return the lesson files of a folder, sorted by name."""
    return sorted(path for path in folder.glob(f"*{SUFFIX}") if path.name.lower() != "readme.md")


def excerpt(lesson: Lesson, name: str) -> Lesson | None:
    """Return the optional section `name` as a lesson, or None if there is no such section or it continues an earlier
    run.
    """
    section = next((one for one in lesson.sections if one.optional and one.name == name), None)
    if section is None:
        return None
    first = next((item for item in section.items if not isinstance(item, Text | Show)), None)
    if not (isinstance(first, Do) and first.action.verb == "restart"):
        return None
    reduced = structs.replace(
        lesson, id=f"{lesson.id}{MARK}{name}", sections=[structs.replace(section, optional=False)]
    )
    return structs.replace(reduced, minutes=ceil(minutes(reduced)))


class Catalogue:
    """Lessons by id. A changed file is read again on the next access, so authors see edits immediately."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder`: a user's folder, whose lessons override shipped lessons with the same id."""
        self._folders = [found for found in (folder, shipped_folder()) if found is not None]
        self._read: dict[Path, tuple[int, Lesson | LessonError]] = {}
        self._lock = threading.Lock()

    def lessons(self) -> list[Lesson]:
        """Return the valid lessons, sorted by number and id."""
        found: dict[str, Lesson] = {}
        for _, read in self._all():
            if isinstance(read, Lesson):
                found.setdefault(read.id, read)
        return sorted(found.values(), key=lambda lesson: (lesson.number, lesson.id))

    def errors(self) -> list[tuple[Path, LessonError]]:
        """Return the invalid files with their errors."""
        return [(path, read) for path, read in self._all() if isinstance(read, LessonError)]

    def get(self, lesson_id: str) -> Lesson | None:
        """Return a lesson, or one of its optional sections as a lesson."""
        name, _, section = lesson_id.partition(MARK)
        found = next((lesson for lesson in self.lessons() if lesson.id == name), None)
        return excerpt(found, section) if found and section else found

    def _all(self) -> list[tuple[Path, Lesson | LessonError]]:
        with self._lock:
            return [(path, self._of(path)) for folder in self._folders for path in lesson_files(folder)]

    def _of(self, path: Path) -> Lesson | LessonError:
        try:
            stamp = path.stat().st_mtime_ns
            known = self._read.get(path)
            if known is None or known[0] != stamp:
                known = self._read[path] = (stamp, read_lesson(path))
            return known[1]
        except LessonError as error:
            self._read[path] = (stamp, error)
            return error
        except OSError as error:
            return LessonError(0, f"{path.name} cannot be read: {error.strerror or error}")


def card(lesson: Lesson, refused: str | None) -> Card:
    """Return the list entry of a lesson."""
    return Card(
        id=lesson.id,
        kind=lesson.kind,
        number=lesson.number,
        minutes=lesson.minutes,
        model=lesson.model,
        title=lesson.title,
        num_questions=sum(isinstance(item, Ask | Work) for item in lesson.items),
        refused=refused,
    )
