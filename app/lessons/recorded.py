"""Recorded lessons of a server. A record is sent only after the questions before it are answered."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from app.ground.errors import refuse
from app.lessons.answers import Card
from app.lessons.lesson import LessonError
from app.lessons.lesson_replay import ReplayState
from app.lessons.transcript import SUFFIX, Transcript, cards, read_transcript, run_name
from engine.trace.codec import TraceFormatError
from engine.trace.log import TraceReader


class RecordRange(NamedTuple):
    """Visible records of a run from `first` on, with their captures."""

    header: bytes
    first: int
    records: list[bytes]
    captures: list[bytes | None]


class RecordedLessons:
    """Recorded lessons of a folder, read at the server's start."""

    def __init__(self, folder: Path | None) -> None:
        """Read a folder. Raises LessonError for an invalid file, and OSError if the folder cannot be read."""
        self._folder = folder
        self._transcripts: dict[tuple[str, str], Transcript] = {}
        for path in sorted(folder.glob(f"*{SUFFIX}")) if folder else ():
            transcript = read_transcript(path)
            self._transcripts[transcript.lesson, transcript.language] = transcript

    @property
    def cards(self) -> list[Card]:
        return cards(list(self._transcripts.values()))

    def get(self, lesson: str, language: str) -> Transcript:
        """Return the lesson in a language, or in another one if it is not available.

        Raises:
            AppError: `not_found`.
        """
        found = self._transcripts.get((lesson, language))
        others = (one for (name, _), one in sorted(self._transcripts.items()) if name == lesson)
        if (transcript := found or next(others, None)) is None:
            raise refuse("not_found", "lesson.recorded", lesson=lesson)
        return transcript

    def record_range(self, transcript: Transcript, shown: ReplayState, first: int, max_bytes: int) -> RecordRange:
        """Return visible records of the current run from `first` on, with their captures, up to `max_bytes` but at
        least one.

        Raises:
            AppError: `refused` if the file of the run cannot be read.
        """
        assert self._folder is not None
        path = self._folder / run_name(transcript.lesson, transcript.language, shown.moment.run)
        try:
            with TraceReader(path) as log:
                found = RecordRange(log.header_bytes, min(first, shown.moment.records), [], [])
                for index in range(found.first, min(shown.moment.records, len(log))):
                    record, capture = log.record_bytes(index), log.capture_bytes(index)
                    max_bytes -= len(record) + len(capture or b"")
                    if found.records and max_bytes < 0:
                        break
                    found.records.append(record)
                    found.captures.append(capture)
                return found
        except (OSError, TraceFormatError) as error:
            raise refuse("refused", "lesson.recorded_run", name=path.name, error=error) from error


def recorded_lessons(folder: Path | None) -> RecordedLessons:
    """Return the recorded lessons of a folder.

    Raises:
        ValueError: the folder cannot be read, or has no recorded lesson; one sentence.
    """
    try:
        found = RecordedLessons(folder)
    except (LessonError, OSError) as error:
        raise ValueError(f"{folder}: {error}") from error
    if folder is not None and not found.cards:
        raise ValueError(f"{folder} has no recorded lessons; kvtheater lesson record writes them")
    return found
