"""Socket events about a class, and their handlers."""

from __future__ import annotations

import contextlib
import datetime

from app.classroom import messages, rights
from app.classroom.access import Access
from app.classroom.answers import ClassEntered, ClassLeft, ClassOpened, ClassPressed, Mine, Presenting
from app.classroom.classroom import Classroom
from app.classroom.classrooms import Classrooms
from app.classroom.doors import bases, door
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
        found = self._classrooms.open(message.title.strip(), message.names)
        found.present(sid)
        return {"secret": found.secret.tell(), "presenting": self._presenting(found, message.base)}

    def present(self, sid: str, message: messages.ClassPresent) -> Presenting:
        found = self._classrooms.get(message.id)
        if found.is_over or not found.secret.fits(message.secret):
            raise refusal("forbidden", "class.not_presenter")
        found.present(sid)
        return self._presenting(found, message.base)

    def end(self, sid: str, message: messages.OfClass, found: Classroom) -> Nothing:
        """End a class, for its presenter; for any owner of the server while it has no presenter."""
        self._labs.end(found)
        found.end()
        self._leave(found, [sid for sid in found.sids() if not self._access.person(sid).is_owner])
        if found.kept_until is not None:
            self._store.keep(results_of(found), datetime.date.fromisoformat(found.kept_until))
        return {}

    def keep(self, sid: str, message: messages.ClassKeep, found: Classroom) -> Nothing:
        """Store the class as it is now; stored again at its end, or on the next request."""
        today = datetime.date.today()
        if not today <= message.until <= today + LONGEST:
            raise refusal("bad_request", "class.until", n=LONGEST.days // 366)
        self._store.keep(results_of(found), message.until)
        found.set_kept_until(message.until.isoformat())
        return {}

    def unkeep(self, sid: str, message: messages.OfClass, found: Classroom | None) -> Nothing:
        """Delete a stored class: by its presenter while it runs, else by an owner of the server."""
        self._store.delete(message.id)
        if found is not None:
            found.set_kept_until(None)
        return {}

    def cast(self, sid: str, message: messages.ClassCast, found: Classroom) -> Nothing:
        if message.session is not None:
            self._sessions.watch(message.session)  # there is one
            other = self._classrooms.of_session(message.session)
            if other is not None and other is not found:
                raise refusal("refused", "drive.stage")
            if other is None:
                self._access.drive(sid, message.session)
        if found.cast(message.session, message.view) and message.session is not None:
            with contextlib.suppress(AppError):  # most runs are of no lesson
                found.lesson_is_at(message.session, self._lessons.find(message.session).course.at)
        return {}

    def hold(self, sid: str, message: messages.ClassHold, found: Classroom) -> Nothing:
        found.hold(message.held)
        return {}

    def lesson(self, sid: str, message: messages.ClassLesson, found: Classroom) -> Nothing:
        """Open a lesson on the presenter's page, which then drives."""
        if found.driver_name is not None:
            found.hand(None)
        pressed: ClassPressed = {"id": found.id, "key": None, "lesson": message.lesson}
        self._emit("class_pressed", pressed, found.driver_sids())
        return {}

    def hand(self, sid: str, message: messages.ClassHand, found: Classroom) -> Nothing:
        found.hand(message.seat)
        if message.seat is not None:
            self._tell_seat(found, message.seat)
        return {}

    def remote(self, sid: str, message: messages.ClassRemote, found: Classroom) -> Nothing:
        found.allow_remote(message.seat, message.allowed)
        self._tell_seat(found, message.seat)
        return {}

    def send_away(self, sid: str, message: messages.ClassSendAway, found: Classroom) -> Nothing:
        gone = found.send_away(message.seat)
        left: ClassLeft = {"id": found.id}
        self._emit("class_left", left, gone)
        if found.labs.is_on:
            self._labs.reclaim_idle(found)
        self._leave(found, gone)
        return {}

    def doors(self, sid: str, message: messages.ClassDoors, found: Classroom) -> Nothing:
        found.open_doors(message.open)
        return {}

    def labs(self, sid: str, message: messages.ClassLabs, found: Classroom) -> Nothing:
        self._labs.switch(found, message.open)
        return {}

    def ask(self, sid: str, message: messages.ClassAsk, found: Classroom) -> Nothing:
        text, options = message.text.strip(), [option.strip() for option in message.options]
        if message.kind == "lesson":
            found.ask("lesson", "", [], self._lesson_question(found), message.seconds)
            self._labs.pause_all(found)
            return {}
        if not text:
            raise refusal("bad_request", "poll.text")
        if message.kind == "choice" and (len(options) < 2 or not all(options)):
            raise refusal("bad_request", "poll.two")
        found.ask(message.kind, text, options if message.kind == "choice" else [], None, message.seconds)
        return {}

    def poll(self, sid: str, message: messages.ClassPoll, found: Classroom) -> Nothing:
        """Move a poll to its next phase. The lesson decides what its own question reveals, and advances with it."""
        poll = found.poll
        right = message.right
        if message.to == "shown" and poll is not None and poll.number == message.poll and poll.lesson:
            right = poll.lesson.right
            with contextlib.suppress(AppError):  # the run is gone, and what is right is known
                self._reveal(found, poll.lesson)
        found.poll_goes(message.poll, message.to, right)
        return {}

    def clock(self, sid: str, message: messages.ClassClock, found: Classroom) -> Nothing:
        found.clock(message.poll, message.seconds)
        return {}

    # Followers

    def enter(self, sid: str, message: messages.ClassEnter, found: Classroom, key: str) -> ClassEntered:
        seat = found.enter(key, sid, message.language, self._access.person(sid).address)
        return {"state": found.state(), "mine": found.mine(seat), "guest": not self._access.person(sid).is_owner}

    def rename(self, sid: str, message: messages.ClassRename, found: Classroom, seat: Seat) -> Mine:
        found.rename(seat, message.name)
        return self._mine(sid, found, seat)

    def answer(self, sid: str, message: messages.ClassAnswer, found: Classroom, seat: Seat) -> Mine:
        found.answer(seat, message.poll, message.round, message.given)
        return self._mine(sid, found, seat)

    def lost(self, sid: str, message: messages.ClassLost, found: Classroom, seat: Seat) -> Mine:
        found.lost(seat, message.lost, self._newest(found))
        return self._mine(sid, found, seat)

    def wish(self, sid: str, message: messages.ClassWish, found: Classroom, seat: Seat) -> Mine:
        found.wish(seat, message.wish)
        return found.mine(seat)

    def lab(self, sid: str, message: messages.ClassLab, found: Classroom, seat: Seat) -> Mine:
        (self._labs.open if message.open else self._labs.close)(found, seat.key)
        return found.mine(seat)

    def press(self, sid: str, message: messages.ClassPress, found: Classroom) -> Nothing:
        pressed: ClassPressed = {"id": found.id, "key": message.key, "lesson": None}
        self._emit("class_pressed", pressed, found.driver_sids())
        return {}

    # Inside

    def _mine(self, sid: str, found: Classroom, seat: Seat) -> Mine:
        """Send a seat's state to the sender and to the seat's other windows."""
        mine = found.mine(seat)
        if others := [one for one in list(seat.sids) if one != sid]:
            self._emit("class_mine", mine, others)
        return mine

    def _tell_seat(self, found: Classroom, number: int) -> None:
        """Send a seat its own state after a change that another client caused."""
        seat = found.seat_of(number)
        self._emit("class_mine", found.mine(seat), list(seat.sids))

    def _leave(self, found: Classroom, sids: list[str]) -> None:
        """Unsubscribe these clients from the class's runs."""
        for session_id in list(found.sessions):
            with contextlib.suppress(AppError):
                session = self._sessions.watch(session_id)
                for sid in sids:
                    session.leave(sid)

    def _presenting(self, found: Classroom, base: str) -> Presenting:
        join = f"/j/{found.code}.{found.key}"
        return {
            "state": found.state(),
            "desk": found.desk(),
            "code": found.code,
            "doors": [door(one, join) for one in bases(base, self._settings.host)],
            "join": join,
        }

    def _lesson_question(self, found: Classroom) -> LessonQuestion:
        """Return the question that the lesson on stage stands before."""
        lesson_session = self._lessons.find(found.session or "")
        course = lesson_session.course
        if not isinstance(course.checkpoint, Ask) or course.question is None or course.is_answered:
            raise refusal("refused", "poll.lesson_asks_nothing")
        words = worded(course.question, course.language)
        return LessonQuestion(lesson_session.session.session_id, course.at, course.question.right, *words)

    def _reveal(self, found: Classroom, question: LessonQuestion) -> None:
        """Reveal the answer in the lesson, and advance it."""
        lesson_session = self._lessons.find(question.session)
        with lesson_session.lock:
            course = lesson_session.course
            if course.at == question.item and not course.is_answered:
                try:
                    course.answer(None)
                    course.go_on()
                except LessonError as error:
                    raise refused(error) from error
                lesson_session.show()
            found.lesson_is_at(question.session, course.at)

    def _newest(self, found: Classroom) -> int:
        with contextlib.suppress(AppError):
            if found.session is not None:
                return len(self._sessions.watch(found.session).run.log) - 1
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
