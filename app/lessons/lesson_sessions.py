"""Active lessons of a server. Each has a session, whose log is visible up to the learner's progress."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import ExitStack

from msgspec import structs

from app.ground.errors import AppError, app_sentence, refuse, refused
from app.lessons.answers import Card
from app.lessons.catalogue import Catalogue, card
from app.lessons.course import Course, LearnerAnswer
from app.lessons.lesson import REVIEW, Ask, Lesson, LessonError, Sandbox, Work
from app.lessons.lesson_engine import NO_TIERS, LessonPrompt
from app.lessons.parse import model_of, settings_of
from app.lessons.recorded import RecordedLessons
from app.lessons.review import review
from app.lessons.tiers import LessonTiers, TierSizes
from app.lessons.transcript import lesson_page, record
from app.models.engine_face import OwnTiers
from app.models.registry import Models, served_name
from app.page.onefile import TooLarge
from app.session.closing import Closing
from app.session.jobs import Fork
from app.session.session import Session
from app.session.session_manager import SessionManager
from engine.config import EngineConfig, SamplingParams
from engine.lab.change import Change
from engine.options.refusal import Sentence
from engine.trace.log import TraceReader

ROOFS_WAIT = 5.0  # maximum seconds that opening a lesson waits for the engine lock, to measure the machine


def _no_lesson(lesson_id: str) -> AppError:
    return refuse("not_found", "lesson.none", name=lesson_id)


class SessionLessonEngine:
    """Lesson engine that uses a session. New records are hidden from viewers."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._retained = ExitStack()  # open logs of earlier runs
        self._tiers = LessonTiers()
        session.in_lesson = True
        session.hold_back(0)

    @property
    def log(self) -> TraceReader:
        return self._session.run.full_log

    def submit(self, prompts: list[LessonPrompt], sampling: SamplingParams) -> None:
        seen = [structs.replace(p, text=self._session.model.normalize(p.text)) for p in prompts]
        self._session.submit(list(seen), sampling)

    def prefill(self) -> None:
        self._session.prefill(None).result()

    def step(self) -> bool:
        return self._session.step(1, None).result().performed > 0

    def lose_instance(self, instance: int) -> None:
        self._session.lose_instance(instance)

    def restart(self, config: EngineConfig, model: str, tiers: TierSizes = NO_TIERS) -> None:
        self._retain_log()
        self._session.reset(config, served_name(model), self._tiers.restart(tiers)).hold_back(0)

    def fork(self, at: int, change: Change, config: EngineConfig) -> None:
        run = self._session.run
        run.hold_back(None)
        fork = Fork(self._session.session_id, run, at, change, follow=False)
        self._retain_log()
        self._session.reset(config).hold_back(0)
        self._session.begin_fork(fork).forked.result()

    def close(self) -> None:
        self._retained.close()
        self._tiers.close()

    def _retain_log(self) -> None:
        self._session.hold_back(None)
        self._retained.enter_context(self._session.run.reading())


class LessonSession:
    """Session of a learner's lesson."""

    def __init__(
        self, lesson: Lesson, language: str, session: Session, changes: dict[str, object], again: dict[str, Ask]
    ) -> None:
        self.session = session
        self.engine = SessionLessonEngine(session)
        self.course = Course(lesson, language, self.engine, changes, again)
        self.lock = threading.Lock()  # serializes a learner's actions

    def show(self) -> None:
        """Show the run up to the learner's progress. In the sandbox and at the end, show all records and allow all
        commands.
        """
        course = self.course
        is_free = course.checkpoint is None or isinstance(course.checkpoint, Sandbox)
        self.session.in_lesson = not is_free
        if course.log is self.session.run.full_log:
            self.session.hold_back(None if is_free else course.moment.records)

    def close(self) -> None:
        self.engine.close()


class LessonSessions:
    """Active lessons by session."""

    def __init__(
        self, sessions: SessionManager, catalogue: Catalogue, recorded: RecordedLessons, models: Models
    ) -> None:
        self.catalogue, self.recorded = catalogue, recorded
        self._sessions, self._models = sessions, models
        self._by_session: dict[str, LessonSession] = {}
        self._lock = threading.Lock()
        self._exporting = threading.Lock()

    def refusal(self, lesson: Lesson) -> Sentence | None:
        """Return one sentence that says why a lesson cannot be played on this server; None if it can."""
        if not self._models.is_live:
            return app_sentence("lesson.no_model")
        missing = [name for name in lesson.models if not self._models.knows(served_name(name))]
        if missing:
            return app_sentence("lesson.model", name=missing[0], models=" ".join(lesson.models))
        return None

    @property
    def cards(self) -> list[Card]:
        """List entries of all lessons: playable ones, else recorded ones, else unplayable ones with the reason.

        A server without a model lists only recorded lessons, if there are any.
        """
        recorded = {found.id: found for found in self.recorded.cards}
        if recorded and not self._models.is_live:
            return list(recorded.values())
        live = [card(lesson, self.refusal(lesson)) for lesson in self.catalogue.lessons()]
        cards = {one.id: one for one in [*recorded.values(), *(one for one in live if one.refused is None)]}
        cards |= {one.id: one for one in live if one.id not in cards}
        return sorted(cards.values(), key=lambda one: (one.number, one.id))

    def find(self, session_id: str) -> LessonSession:
        """Return the lesson of a session.

        Raises:
            AppError: `unknown_theater`.
        """
        lesson_session = self._by_session.get(session_id)
        if lesson_session is None or lesson_session.session.is_closed:
            raise refuse("unknown_theater", "lesson.gone")
        return lesson_session

    def find_open(self, session_id: str | None, lesson_id: str, language: str) -> LessonSession | None:
        """Return the lesson of a session, if it is this lesson in this language."""
        lesson_session = self._by_session.get(session_id or "")
        if lesson_session is None or lesson_session.session.is_closed:
            return None
        course = lesson_session.course
        return lesson_session if (course.lesson.id, course.language) == (lesson_id, language) else None

    def open(
        self,
        lesson_id: str,
        language: str,
        at: int,
        answers: dict[str, list[LearnerAnswer]],
        changes: dict[str, object],
        again: Iterable[tuple[str, int]] = (),
    ) -> LessonSession:
        """Return a new session with the lesson at item `at`, after the given answers to the questions before it.

        `again`: lesson and item of questions to repeat. The lesson REVIEW consists of those of the first lesson.

        Raises:
            AppError: `not_found`, `refused`; `busy` if the machine has to be measured but is not idle; errors of
                creating a session.
        """
        earlier = list(again)
        lesson = self._review(earlier) if lesson_id == REVIEW else self.catalogue.get(lesson_id)
        if lesson is None:
            raise _no_lesson(lesson_id)
        if language not in lesson.languages:
            language = lesson.languages[0]
        if why := self.refusal(lesson):
            raise AppError("refused", why)
        self._forget_closed()
        try:
            config = settings_of(lesson, dict(changes))[0]
        except ValueError as error:
            raise AppError("bad_request", str(error)) from error
        model = served_name(model_of(lesson, dict(changes)))
        if lesson.wants_roofs:
            with self._models.lease(model) as lease:
                self._sessions.measured_machine(lease.model, ROOFS_WAIT, interrupt=True)
        session = self._sessions.create(config, lesson.title[language], model, OwnTiers(None))
        with ExitStack() as undo:
            undo.callback(self._sessions.remove, session, Closing("unbuilt"))
            lesson_session = LessonSession(lesson, language, session, changes, self._earlier(earlier))
            undo.callback(lesson_session.close)
            try:
                replay(lesson_session.course, at, answers)
            except LessonError as error:
                raise refuse("refused", "lesson.wrong", error=error) from error
            lesson_session.show()
            with self._lock:
                self._by_session[session.session_id] = lesson_session
            undo.pop_all()
        return lesson_session

    def _review(self, earlier: list[tuple[str, int]]) -> Lesson | None:
        """Return the lesson that repeats the questions of the first of these lessons on its own run."""
        name = earlier[0][0] if earlier else ""
        lesson = self.catalogue.get(name)
        return review(lesson, [index for of, index in earlier if of == name]) if lesson else None

    def _earlier(self, again: Iterable[tuple[str, int]]) -> dict[str, Ask]:
        """Return the questions that still exist, by the page's id."""
        found: dict[str, Ask] = {}
        for name, index in again:
            lesson = self.catalogue.get(name)
            items = lesson.items if lesson else []
            if index < len(items) and isinstance(item := items[index], Ask):
                found[f"{name}/{index}"] = item
        return found

    def export(self, lesson_id: str) -> bytes:
        """Run a lesson and return it as one HTML file with all its languages.

        Raises:
            AppError: `not_found`, `refused`; `busy` or `loading`, without waiting, if it can be retried.
        """
        lesson = self.catalogue.get(lesson_id)
        if lesson is None:
            raise _no_lesson(lesson_id)
        if why := self.refusal(lesson):
            raise AppError("refused", why)
        if not self._exporting.acquire(blocking=False):  # one at a time, since each computes for a second or two
            raise refuse("busy", "lesson.exporting")
        with ExitStack() as used:
            used.callback(self._exporting.release)
            leases = {name: used.enter_context(self._models.lease(served_name(name), wait=0)) for name in lesson.models}
            if lesson.wants_roofs:
                self._sessions.measured_machine(leases[lesson.model].model)
            builders = {name: lease.model.build_small for name, lease in leases.items()}
            try:
                lock = self._sessions.engine_lock
                recorded = [record(lesson, code, builders.__getitem__, lock) for code in lesson.languages]
                return lesson_page(recorded)
            except LessonError as error:
                raise refuse("refused", "lesson.wrong", error=error) from error
            except TooLarge as error:
                raise refused(error) from error

    def _forget_closed(self) -> None:
        with self._lock:
            closed = [name for name, lesson_session in self._by_session.items() if lesson_session.session.is_closed]
            for name in closed:
                self._by_session.pop(name).close()


def replay(course: Course, at: int, answers: dict[str, list[LearnerAnswer]]) -> None:
    """Go to item `at`, or to the first unanswered question before it.

    The answers may belong to an earlier version of the lesson. Invalid ones are ignored.
    """
    course.advance()
    while course.checkpoint is not None and course.at <= at:
        needs_answer = isinstance(course.checkpoint, Ask | Work)
        if needs_answer:
            for given in answers.get(str(course.at), []):
                if not course.is_answered and course.refusal(given) is None:
                    course.answer(given)
        if course.at == at or (needs_answer and not course.is_answered):
            return
        course.advance()
