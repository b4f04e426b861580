"""Socket events about a class, and their handlers."""

from __future__ import annotations

import contextlib
import datetime

from app.classroom import messages, rights
from app.classroom.access import Access
from app.classroom.answers import ClassEntered, ClassLeft, ClassOpened, ClassPressed, Mine, Presenting
from app.classroom.classroom import Classroom
from app.classroom.classrooms import Classrooms
from app.classroom.doors import base_urls, door
from app.classroom.labs import Labs
from app.classroom.polls import LessonQuestion
from app.classroom.refusing import refusal
from app.classroom.results import results_of
from app.classroom.rights import Event
from app.classroom.seats import Seat
from app.classroom.store import LONGEST, Store
from app.ground.errors import AppError, refused
from app.ground.settings import ServerSettings
from app.lessons.lesson import Ask, LessonError
from app.lessons.lesson_sessions import LessonSessions
from app.lessons.words import worded
from app.session.answers import Nothing
from app.session.broadcast import Emit
from app.session.session_manager import SessionManager


class ClassEvents:
    """Handlers of the class events, one method each."""

    def __init__(
        self,
        access: Access,
        classrooms: Classrooms,
        sessions: SessionManager,
        lessons: LessonSessions,
        labs: Labs,
        store: Store,
        settings: ServerSettings,
        emit: Emit,
    ) -> None:
        self._labs, self._store = labs, store
        self._access, self._classrooms = access, classrooms
        self._sessions, self._lessons = sessions, lessons
        self._settings, self._emit = settings, emit

    # The presenter

    def open(self, sid: str, message: messages.ClassOpen) -> ClassOpened:
        classroom = self._classrooms.open(message.title.strip(), message.names)
        classroom.present(sid)
        return {"secret": classroom.secret.reveal(), "presenting": self._presenting(classroom, message.base)}

    def present(self, sid: str, message: messages.ClassPresent) -> Presenting:
        classroom = self._classrooms.get(message.id)
        if classroom.is_over or not classroom.secret.matches(message.secret):
            raise refusal("forbidden", "class.not_presenter")
        classroom.present(sid)
        return self._presenting(classroom, message.base)

    def end(self, sid: str, message: messages.OfClass, classroom: Classroom) -> Nothing:
        """End a class. Any owner of the server may do so while it has no presenter."""
        self._labs.end(classroom)
        classroom.end()
        self._unsubscribe(classroom, [sid for sid in classroom.sids() if not self._access.person(sid).is_owner])
        if classroom.kept_until is not None:
            self._store.save(results_of(classroom), datetime.date.fromisoformat(classroom.kept_until))
        return {}

    def keep(self, sid: str, message: messages.ClassKeep, classroom: Classroom) -> Nothing:
        """Store the class in its current state. It is stored again when it ends, and on each request."""
        today = datetime.date.today()
        if not today <= message.until <= today + LONGEST:
            raise refusal("bad_request", "class.until", n=LONGEST.days // 366)
        self._store.save(results_of(classroom), message.until)
        classroom.set_kept_until(message.until.isoformat())
        return {}

    def unkeep(self, sid: str, message: messages.OfClass, classroom: Classroom | None) -> Nothing:
        """Delete a stored class. Only its presenter may do so while it runs, and any owner afterwards."""
        self._store.delete(message.id)
        if classroom is not None:
            classroom.set_kept_until(None)
        return {}

    def cast(self, sid: str, message: messages.ClassCast, classroom: Classroom) -> Nothing:
        if message.session is not None:
            self._sessions.watch(message.session)  # raises if it does not exist
            other = self._classrooms.of_session(message.session)
            if other is not None and other is not classroom:
                raise refusal("refused", "drive.stage")
            if other is None:
                self._access.check_drive(sid, message.session)
        if classroom.cast(message.session, message.view) and message.session is not None:
            with contextlib.suppress(AppError):  # most runs belong to no lesson
                classroom.set_lesson_position(message.session, self._lessons.find(message.session).course.at)
        return {}

    def hold(self, sid: str, message: messages.ClassHold, classroom: Classroom) -> Nothing:
        classroom.hold(message.held)
        return {}

    def lesson(self, sid: str, message: messages.ClassLesson, classroom: Classroom) -> Nothing:
        """Open a lesson on the presenter's page, and make the presenter the driver."""
        if classroom.driver_name is not None:
            classroom.set_driver(None)
        pressed: ClassPressed = {"id": classroom.id, "key": None, "lesson": message.lesson}
        self._emit("class_pressed", pressed, classroom.driver_sids())
        return {}

    def hand(self, sid: str, message: messages.ClassHand, classroom: Classroom) -> Nothing:
        classroom.set_driver(message.seat)
        if message.seat is not None:
            self._send_seat_state(classroom, message.seat)
        return {}

    def remote(self, sid: str, message: messages.ClassRemote, classroom: Classroom) -> Nothing:
        classroom.allow_remote(message.seat, message.allowed)
        self._send_seat_state(classroom, message.seat)
        return {}

    def send_away(self, sid: str, message: messages.ClassSendAway, classroom: Classroom) -> Nothing:
        removed = classroom.remove_seat(message.seat)
        left: ClassLeft = {"id": classroom.id}
        self._emit("class_left", left, removed)
        if classroom.labs.is_on:
            self._labs.reclaim_idle(classroom)
        self._unsubscribe(classroom, removed)
        return {}

    def doors(self, sid: str, message: messages.ClassDoors, classroom: Classroom) -> Nothing:
        classroom.set_admission(message.open)
        return {}

    def labs(self, sid: str, message: messages.ClassLabs, classroom: Classroom) -> Nothing:
        self._labs.switch(classroom, message.open)
        return {}

    def ask(self, sid: str, message: messages.ClassAsk, classroom: Classroom) -> Nothing:
        text, options = message.text.strip(), [option.strip() for option in message.options]
        if message.kind == "lesson":
            classroom.ask("lesson", "", [], self._lesson_question(classroom), message.seconds)
            self._labs.pause_all(classroom)
            return {}
        if not text:
            raise refusal("bad_request", "poll.text")
        if message.kind == "choice" and (len(options) < 2 or not all(options)):
            raise refusal("bad_request", "poll.two")
        classroom.ask(message.kind, text, options if message.kind == "choice" else [], None, message.seconds)
        return {}

    def poll(self, sid: str, message: messages.ClassPoll, classroom: Classroom) -> Nothing:
        """Change the phase of a poll. A lesson's question is answered by the lesson, which then advances."""
        poll = classroom.poll
        right = message.right
        if message.to == "shown" and poll is not None and poll.number == message.poll and poll.lesson:
            right = poll.lesson.right
            with contextlib.suppress(AppError):  # the session was closed; the right answer is known anyway
                self._reveal(classroom, poll.lesson)
        classroom.set_poll_phase(message.poll, message.to, right)
        return {}

    def clock(self, sid: str, message: messages.ClassClock, classroom: Classroom) -> Nothing:
        classroom.clock(message.poll, message.seconds)
        return {}

    # Followers

    def enter(self, sid: str, message: messages.ClassEnter, classroom: Classroom, key: str) -> ClassEntered:
        seat = classroom.enter(key, sid, message.language, self._access.person(sid).address)
        is_guest = not self._access.person(sid).is_owner
        return {"state": classroom.state(), "mine": classroom.mine(seat), "guest": is_guest}

    def rename(self, sid: str, message: messages.ClassRename, classroom: Classroom, seat: Seat) -> Mine:
        classroom.rename(seat, message.name)
        return self._mine(sid, classroom, seat)

    def answer(self, sid: str, message: messages.ClassAnswer, classroom: Classroom, seat: Seat) -> Mine:
        classroom.answer(seat, message.poll, message.round, message.given)
        return self._mine(sid, classroom, seat)

    def lost(self, sid: str, message: messages.ClassLost, classroom: Classroom, seat: Seat) -> Mine:
        classroom.lost(seat, message.lost, self._last_record(classroom))
        return self._mine(sid, classroom, seat)

    def wish(self, sid: str, message: messages.ClassWish, classroom: Classroom, seat: Seat) -> Mine:
        classroom.wish(seat, message.wish)
        return classroom.mine(seat)

    def lab(self, sid: str, message: messages.ClassLab, classroom: Classroom, seat: Seat) -> Mine:
        (self._labs.open if message.open else self._labs.close)(classroom, seat.key)
        return classroom.mine(seat)

    def press(self, sid: str, message: messages.ClassPress, classroom: Classroom) -> Nothing:
        pressed: ClassPressed = {"id": classroom.id, "key": message.key, "lesson": None}
        self._emit("class_pressed", pressed, classroom.driver_sids())
        return {}

    # Inside

    def _mine(self, sid: str, classroom: Classroom, seat: Seat) -> Mine:
        """Return a seat's state for the sender, and send it to the seat's other connections."""
        mine = classroom.mine(seat)
        if others := [one for one in list(seat.sids) if one != sid]:
            self._emit("class_mine", mine, others)
        return mine

    def _send_seat_state(self, classroom: Classroom, number: int) -> None:
        """Send a seat its own state after another client has changed it."""
        seat = classroom.seat_of(number)
        self._emit("class_mine", classroom.mine(seat), list(seat.sids))

    def _unsubscribe(self, classroom: Classroom, sids: list[str]) -> None:
        """Unsubscribe these clients from the class's runs."""
        for session_id in list(classroom.sessions):
            with contextlib.suppress(AppError):
                session = self._sessions.watch(session_id)
                for sid in sids:
                    session.leave(sid)

    def _presenting(self, classroom: Classroom, base: str) -> Presenting:
        join = f"/j/{classroom.code}.{classroom.key}"
        return {
            "state": classroom.state(),
            "desk": classroom.desk(),
            "code": classroom.code,
            "doors": [door(one, join) for one in base_urls(base, self._settings.host)],
            "join": join,
        }

    def _lesson_question(self, classroom: Classroom) -> LessonQuestion:
        """Return the open question of the lesson on stage."""
        lesson_session = self._lessons.find(classroom.session or "")
        course = lesson_session.course
        if not isinstance(course.checkpoint, Ask) or course.question is None or course.is_answered:
            raise refusal("refused", "poll.lesson_asks_nothing")
        words = worded(course.question, course.language)
        return LessonQuestion(lesson_session.session.session_id, course.at, course.question.right, *words)

    def _reveal(self, classroom: Classroom, question: LessonQuestion) -> None:
        """Reveal the answer in the lesson, and advance it."""
        lesson_session = self._lessons.find(question.session)
        with lesson_session.lock:
            course = lesson_session.course
            if course.at == question.item and not course.is_answered:
                try:
                    course.answer(None)
                    course.advance()
                except LessonError as error:
                    raise refused(error) from error
                lesson_session.show()
            classroom.set_lesson_position(question.session, course.at)

    def _last_record(self, classroom: Classroom) -> int:
        with contextlib.suppress(AppError):
            if classroom.session is not None:
                return len(self._sessions.watch(classroom.session).run.log) - 1
        return -1


CLASS_EVENTS: dict[str, Event] = {
    "class_open": Event(messages.ClassOpen, rights.owner, ClassEvents.open),
    "class_present": Event(messages.ClassPresent, rights.owner, ClassEvents.present),
    "class_end": Event(messages.OfClass, rights.presenter_or_heir, ClassEvents.end),
    "class_cast": Event(messages.ClassCast, rights.class_driver, ClassEvents.cast),
    "class_lesson": Event(messages.ClassLesson, rights.presenter, ClassEvents.lesson),
    "class_hold": Event(messages.ClassHold, rights.presenter, ClassEvents.hold),
    "class_hand": Event(messages.ClassHand, rights.presenter, ClassEvents.hand),
    "class_remote": Event(messages.ClassRemote, rights.presenter, ClassEvents.remote),
    "class_send_away": Event(messages.ClassSendAway, rights.presenter, ClassEvents.send_away),
    "class_keep": Event(messages.ClassKeep, rights.presenter, ClassEvents.keep),
    "class_unkeep": Event(messages.OfClass, rights.presenter_or_keeper, ClassEvents.unkeep),
    "class_doors": Event(messages.ClassDoors, rights.presenter, ClassEvents.doors),
    "class_labs": Event(messages.ClassLabs, rights.presenter, ClassEvents.labs),
    "class_ask": Event(messages.ClassAsk, rights.presenter, ClassEvents.ask),
    "class_poll": Event(messages.ClassPoll, rights.presenter, ClassEvents.poll),
    "class_clock": Event(messages.ClassClock, rights.presenter, ClassEvents.clock),
    "class_enter": Event(messages.ClassEnter, rights.pass_holder, ClassEvents.enter),
    "class_rename": Event(messages.ClassRename, rights.follower, ClassEvents.rename),
    "class_answer": Event(messages.ClassAnswer, rights.follower, ClassEvents.answer),
    "class_lost": Event(messages.ClassLost, rights.follower, ClassEvents.lost),
    "class_wish": Event(messages.ClassWish, rights.follower, ClassEvents.wish),
    "class_lab": Event(messages.ClassLab, rights.follower, ClassEvents.lab),
    "class_press": Event(messages.ClassPress, rights.remote, ClassEvents.press),
}
