"""Socket events about lessons, and their handlers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from app.classroom import rights
from app.classroom.classrooms import Classrooms
from app.classroom.refusing import refusal
from app.classroom.rights import Event
from app.ground.errors import refused
from app.ground.plain import plain
from app.lessons import messages
from app.lessons.answers import LessonOpened, LessonReplayed, LessonState
from app.lessons.item_messages import page_items
from app.lessons.lesson import LessonError
from app.lessons.lesson_replay import replay_state
from app.lessons.lesson_sessions import LessonSession, LessonSessions
from app.lessons.words import question_texts
from app.page.words import languages
from app.server.events import READ_BYTES


class LessonEvents:
    """Handlers of the lesson events, one method each."""

    def __init__(self, lessons: LessonSessions, classrooms: Classrooms) -> None:
        self._lessons, self._classrooms = lessons, classrooms

    def lesson_open(self, sid: str, message: messages.LessonOpen) -> LessonOpened:
        known = self._lessons.find_open(message.session, message.lesson, message.language)
        lesson_session = known or self._lessons.open(
            message.lesson,
            message.language,
            message.at,
            message.answers,
            message.changes,
            [(one.lesson, one.item) for one in message.again],
        )
        return _lesson_opened(lesson_session, message.language, 0)

    def lesson_look(self, sid: str, message: messages.LessonLook) -> LessonOpened:
        """Return a lesson up to its class's current item."""
        return _lesson_opened(self._lessons.find(message.session), message.language, message.since)

    def lesson_go(self, sid: str, message: messages.LessonGo) -> LessonState:
        """Perform the learner's current item, and advance to the next one."""
        lesson_session = self._lessons.find(message.session)
        with lesson_session.lock, _of_lesson():
            self._check_no_open_question(message)
            first = lesson_session.course.at
            if message.item == first:  # otherwise another click was faster
                try:
                    lesson_session.course.advance()
                finally:
                    lesson_session.show()
            self._classrooms.set_lesson_position(message.session, lesson_session.course.at)
        return _lesson_state(lesson_session, message.item)

    def lesson_answer(self, sid: str, message: messages.LessonAnswer) -> LessonState:
        lesson_session = self._lessons.find(message.session)
        with lesson_session.lock, _of_lesson():
            self._check_no_open_question(message)
            course = lesson_session.course
            if message.item == course.at:
                try:
                    course.answer(message.given)
                    if course.is_answered:
                        course.advance()
                finally:
                    lesson_session.show()
            self._classrooms.set_lesson_position(message.session, lesson_session.course.at)
        return _lesson_state(lesson_session, message.item)

    def lesson_retell(self, sid: str, message: messages.LessonRetell) -> LessonReplayed:
        lessons = self._lessons.recorded
        transcript = lessons.get(message.lesson, message.language)
        shown = replay_state(transcript, message.at, message.answers)
        has = message.first if message.run == shown.moment.run else 0
        header, first, records, captures = lessons.record_range(transcript, shown, has, READ_BYTES)
        return {
            "theater": "",
            "first": message.since,
            "items": plain(shown.items[message.since :]),
            "progress": plain(shown.progress),
            "lesson": transcript.lesson,
            "language": transcript.language,
            "kind": transcript.kind,
            "title": transcript.title,
            "minutes": transcript.minutes,
            "words": transcript.words,
            "run": shown.moment.run,
            "num_records": shown.moment.records,
            "header": header,
            "first_record": first,
            "records": records,
            "captures": captures,
        }

    def _check_no_open_question(self, message: messages.LessonGo | messages.LessonAnswer) -> None:
        """Refuse to continue while the class answers the current question.

        Raises:
            AppError: `refused`.
        """
        if self._classrooms.has_open_question(message.session):
            raise refusal("refused", "poll.asked")


LESSON_EVENTS: dict[str, Event] = {
    "lesson_open": Event(messages.LessonOpen, rights.owner, LessonEvents.lesson_open),
    "lesson_look": Event(messages.LessonLook, rights.watcher, LessonEvents.lesson_look),
    "lesson_go": Event(messages.LessonGo, rights.driver, LessonEvents.lesson_go),
    "lesson_answer": Event(messages.LessonAnswer, rights.driver, LessonEvents.lesson_answer),
    "lesson_retell": Event(messages.LessonRetell, rights.owner, LessonEvents.lesson_retell),
}


def _lesson_opened(lesson_session: LessonSession, wanted: str, since: int) -> LessonOpened:
    """Return a lesson's items from `since` on, in language `wanted` if the lesson has it.

    The run's prompts remain in the language in which the lesson was opened.
    """
    lesson = lesson_session.course.lesson
    language = wanted if wanted in lesson.languages else lesson_session.course.language
    return {
        **_lesson_state(lesson_session, since, language),
        "lesson": lesson.id,
        "language": language,
        "kind": lesson.kind,
        "title": lesson.title[language],
        "minutes": lesson.minutes,
        "words": question_texts(wanted if wanted in languages() else language),
    }


def _lesson_state(lesson_session: LessonSession, first: int, language: str | None = None) -> LessonState:
    course = lesson_session.course
    return {
        "theater": lesson_session.session.session_id,
        "first": first,
        "items": plain(page_items(course, first, language)),
        "progress": plain(course.progress),
    }


@contextlib.contextmanager
def _of_lesson() -> Iterator[None]:
    """Convert a LessonError to an AppError."""
    try:
        yield
    except LessonError as error:
        raise refused(error) from error
