"""State of a class: members, shared view, and questions."""

from __future__ import annotations

import itertools
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping

from app.classroom import admission
from app.classroom.answers import ClassDesk, ClassState, LessonAt, Mine, Names, SeatState, Wish
from app.classroom.codes import Secret, new_code
from app.classroom.lab_places import LabPlaces
from app.classroom.polls import Answer, Kind, LessonQuestion, Phase, Poll
from app.classroom.refusing import refusal
from app.classroom.seats import Seat, checked_name, invented_name
from app.ground.errors import AppError
from app.ground.plain import plain

MAX_POLLS = 200
MAX_MARKS = 5000  # "lost here" marks; beyond it the oldest are dropped
MAX_VIEW = 48  # settings in a view
MAX_VIEW_CHARACTERS = 8192  # of all settings together, since a view is sent to all members
_NAME = re.compile(r"[a-z][a-z_]{0,39}")


class Classroom:
    """Running class.

    Every method may be called on any thread. `on_change` is called without the lock; its second argument says whether
    to notify all members or only the presenters.
    """

    def __init__(self, class_id: str, title: str, names: Names, on_change: Callable[[Classroom, bool], None]) -> None:
        self.id, self.title, self.names = class_id, title, names
        self.code = new_code()
        self.key = secrets.token_urlsafe(16)  # part of the QR code's link, with which no code is needed
        self.secret = Secret()  # of the presenter
        self.presenters: set[str] = set()  # connection ids
        self.polls: list[Poll] = []
        self.sessions: set[str] = set()  # current and earlier runs on stage, which only the class's driver commands
        self.began = time.time()
        self.ended: float | None = None
        self.kept_until: str | None = None
        self.labs = LabPlaces()
        self._numbers = itertools.count()  # of seats; never reused
        self._seats: dict[str, Seat] = {}  # by the key of the pass
        self._removed_keys: set[str] = set()  # keys of removed seats, which cannot enter again
        self._seat_by_sid: dict[str, Seat] = {}  # index, since hundreds of connections may close at once
        self.is_open = True  # whether clients without a seat may enter
        self._began = self._left_at = time.monotonic()
        self._on_change = on_change
        self._lock = threading.RLock()
        self._version = 0
        self._driver: Seat | None = None
        self._held = False
        self._session: str | None = None
        self._view: dict[str, str] = {}
        self._lesson: LessonAt | None = None
        self._marks: list[list[float]] = []
        self._over = False

    # Attendance

    @property
    def is_over(self) -> bool:
        return self._over

    @property
    def session(self) -> str | None:
        """The run on stage."""
        return self._session

    def sids(self) -> list[str]:
        """Return all connected clients."""
        with self._lock:
            followers = {sid for seat in self._seats.values() for sid in seat.sids}
            return [*self.presenters, *(followers - self.presenters)]

    @property
    def seconds_empty(self) -> float:
        """Seconds since the last connection ended; 0 while a client is connected."""
        with self._lock:
            there = bool(self.presenters) or any(seat.is_here for seat in self._seats.values())
            return 0.0 if there else time.monotonic() - self._left_at

    def seats(self) -> list[Seat]:
        """Return the seats in order of arrival."""
        with self._lock:
            return list(self._seats.values())

    def seat(self, key: str) -> Seat:
        """Return the seat of a pass.

        Raises:
            AppError: `refused` if the pass has no seat.
        """
        found = self._seats.get(key)
        if found is None:
            raise refusal("refused", "seat.none")
        return found

    def present(self, sid: str) -> None:
        """Add a page of the presenter."""
        with self._lock:
            self.presenters.add(sid)
        self.notify(everybody=False)

    def enter(self, key: str, sid: str, language: str, address: str) -> Seat:
        """Add a follower's page, with its existing seat or a new one.

        Raises:
            AppError: `refused` if the class is over or full, or admits no new members; `busy` if too many enter from
                this address at once.
        """
        with self._lock:
            self._check_open()
            if key in self._removed_keys:
                raise refusal("refused", "seat.taken_away")
            seat = self._seats.get(key)
            if seat is None:
                self.check_admission()
                self._expire()
                replaced = admission.seat_to_replace(address, self._seats.values())
                if replaced is not None:
                    self._remove(replaced)
                taken = {other.name for other in self._seats.values()}
                seat = self._seats[key] = Seat(next(self._numbers), key, invented_name(language, taken), address)
            seat.connect(sid)
            self._seat_by_sid[sid] = seat
        self.notify(everybody=False)
        return seat

    def forget(self, sid: str) -> None:
        """Remove a closed connection."""
        with self._lock:
            found = sid in self.presenters
            self.presenters.discard(sid)
            seat = self._seat_by_sid.pop(sid, None)
            if seat is not None:
                seat.disconnect(sid)
                found = True
        if found:
            self._left_at = time.monotonic()
            self.notify(everybody=False)

    def rename(self, seat: Seat, name: str) -> None:
        """Rename a seat. Raises AppError for an empty or taken name, or if the class has no names."""
        if self.names == "none":
            raise refusal("refused", "name.none")
        wanted = checked_name(name)
        with self._lock:
            if any(other.name == wanted and other is not seat for other in self._seats.values()):
                raise refusal("refused", "name.taken")
            seat.name = wanted
        self.notify(everybody=self._driver is seat)

    def remove_seat(self, number: int) -> list[str]:
        """Remove a seat and its answers. Returns its connections."""
        with self._lock:
            seat = self.seat_of(number)
            self._remove(seat)
            self._removed_keys.add(seat.key)
        self.notify()
        return list(seat.sids)

    def set_admission(self, is_open: bool) -> None:
        """Admit new members (True), or only clients that have a seat."""
        with self._lock:
            self.is_open = is_open
        self.notify(everybody=False)

    def check_admission(self) -> None:
        """Raise AppError `refused` while no new members are admitted."""
        if not self.is_open:
            raise refusal("refused", "door.closed")

    def has_seat(self, key: str) -> bool:
        return key in self._seats

    def remove_expired(self) -> None:
        """Remove expired seats."""
        with self._lock:
            has_removed = self._expire()
        if has_removed:
            self.notify(everybody=False)

    # Driver

    def may_drive(self, sid: str) -> bool:
        """Return whether this connection drives the class."""
        with self._lock:
            return sid in (self._driver.sids if self._driver else self.presenters)

    def driver_sids(self) -> list[str]:
        with self._lock:
            return list(self._driver.sids if self._driver else self.presenters)

    @property
    def driver_name(self) -> str | None:
        """Name of the driving follower; None: the presenter drives."""
        return self._driver.name if self._driver else None

    def set_driver(self, number: int | None) -> None:
        """Set the driving seat; None: the presenter drives."""
        with self._lock:
            self._driver = None if number is None else self.seat_of(number)
            if self._driver:
                self._driver.wish, self._driver.is_trusted = None, True
        self.notify()

    def allow_remote(self, number: int, allowed: bool) -> None:
        """Set whether a seat may press "next" and "back"."""
        with self._lock:
            seat = self.seat_of(number)
            seat.is_remote, seat.is_trusted, seat.wish = allowed, True, None
        self.notify()

    def wish(self, seat: Seat, what: Wish | None) -> None:
        """Set the wish of a seat to drive or to be the remote; None: no wish."""
        with self._lock:
            seat.wish = what
        self.notify(everybody=False)

    # Shared view

    def cast(self, session: str | None, view: Mapping[str, str]) -> bool:
        """Set the run on stage and the view. Returns whether the run has changed.

        Raises:
            AppError: `bad_request` for an invalid view.
        """
        if len(view) > MAX_VIEW or not all(_NAME.fullmatch(name) for name in view):
            raise AppError("bad_request", f"a view has {MAX_VIEW} settings at most, by their names")
        if sum(len(value) for value in view.values()) > MAX_VIEW_CHARACTERS:
            raise AppError("bad_request", f"a view has {MAX_VIEW_CHARACTERS} characters at most")
        with self._lock:
            has_changed = session != self._session
            if not has_changed and view == self._view:
                return False
            self._session, self._view = session, dict(view)
            if has_changed:
                self._lesson = None
            if session is not None:
                self.sessions.add(session)
        self.notify()
        return has_changed

    def set_lesson_position(self, session: str, at: int) -> None:
        """Record that the lesson on stage has advanced."""
        with self._lock:
            if session != self._session:
                return
            version = self._lesson["version"] + 1 if self._lesson else 0
            self._lesson = {"theater": session, "at": at, "version": version}
        self.notify()

    def hold(self, held: bool) -> None:
        """Set whether followers must follow the presenter's view."""
        with self._lock:
            self._held = held
        self.notify()

    # Questions

    @property
    def poll(self) -> Poll | None:
        """The last question."""
        return self.polls[-1] if self.polls else None

    @property
    def has_lesson_question(self) -> bool:
        """Whether the last question is one of a lesson and its answer is not revealed yet."""
        poll = self.poll
        return bool(poll and poll.lesson and poll.phase != "shown")

    def ask(
        self,
        kind: Kind,
        text: str,
        options: list[str],
        lesson: LessonQuestion | None = None,
        seconds: float | None = None,
    ) -> Poll:
        """Ask the class a question.

        Raises:
            AppError: `refused` while another question is open.
        """
        with self._lock:
            self._check_open()
            if self.poll and self.poll.phase != "shown":
                raise refusal("refused", "poll.open")
            if len(self.polls) >= MAX_POLLS:
                raise refusal("refused", "poll.most", n=MAX_POLLS)
            poll = Poll(len(self.polls), kind, text, options, lesson, seconds)
            self.polls.append(poll)
        self.notify()
        return poll

    def answer(self, seat: Seat, number: int, in_round: int, given: Answer) -> None:
        """Record an answer. Raises AppError if the question is not open, or the answer is invalid."""
        with self._lock:
            poll = self.poll
            if poll is None or poll.number != number:
                raise refusal("refused", "poll.over")
            poll.answer(seat.key, in_round, given)
            seat.has_answered = True
        self.notify(everybody=False)

    def set_poll_phase(self, number: int, to: Phase, right: Answer = None) -> Poll:
        """Change the phase of a question. Raises AppError if it is not the last one, or the phase cannot follow."""
        with self._lock:
            poll = self.poll
            if poll is None or poll.number != number:
                raise refusal("refused", "poll.other")
            poll.set_phase(to, right)
        self.notify()
        return poll

    def clock(self, number: int, seconds: float | None) -> None:
        """Set the remaining seconds of a question; None: no time limit."""
        with self._lock:
            if self.poll and self.poll.number == number:
                self.poll.clock(seconds)
        self.notify()

    def lost(self, seat: Seat, is_lost: bool, newest: int) -> None:
        """Mark a follower as lost, or clear the mark. `newest`: the last record of the run on stage."""
        with self._lock:
            if not is_lost:
                seat.clear_lost()
            elif seat.mark_lost():
                step = self._view.get("step", "")
                record = int(step) if step.isascii() and step.isdigit() else newest
                self._marks = [*self._marks[-MAX_MARKS:], [round(time.monotonic() - self._began, 1), record]]
        self.notify(everybody=False)

    def set_kept_until(self, until: str | None) -> None:
        """Set the date until which results are stored; None: not stored."""
        self.kept_until = until
        self.notify(everybody=False)

    def marks(self) -> list[list[float]]:
        """Return the "lost here" marks: seconds since the class began, and the shown record."""
        with self._lock:
            return list(self._marks)

    def end(self) -> None:
        """End the class. Members are notified, and nobody can enter it any more."""
        with self._lock:
            self._over, self._driver, self._held = True, None, False
            self.ended = self.ended or time.time()
        self.notify()

    # Messages

    def state(self) -> ClassState:
        """Return the message to all members: the public state."""
        with self._lock:
            poll = self.poll
            return {
                "id": self.id,
                "version": self._version,
                "title": self.title,
                "names": self.names,
                "driver": self._driver.number if self._driver else None,
                "driver_name": self.driver_name,
                "held": self._held,
                "theater": self._session,
                "view": self._view,
                "lesson": self._lesson,
                "poll": plain(poll.state()) if poll else None,
                "labs": self.labs.is_on,
                "over": self._over,
            }

    def mine(self, seat: Seat) -> Mine:
        """Return the message to one seat: the seat's state."""
        lab, queue = self.labs.status_of(seat.key)
        with self._lock:
            answered = [poll for poll in self.polls if any(seat.key in votes for votes in poll.rounds)]
            return {
                "seat": seat.number,
                "name": seat.name,
                "answers": [
                    {
                        "poll": poll.number,
                        "theater": poll.lesson.session if poll.lesson else None,
                        "item": poll.lesson.item if poll.lesson else None,
                        "given": [votes.get(seat.key) for votes in poll.rounds],
                        "has": [seat.key in votes for votes in poll.rounds],
                    }
                    for poll in answered
                ],
                "remote": seat.is_remote,
                "drives": self._driver is seat,
                "lost": seat.is_lost,
                "wish": seat.wish,
                "lab": lab,
                "queue": queue,
            }

    def desk(self) -> ClassDesk:
        """Return the message to the presenters: attendance and counts."""
        with self._lock:
            self._expire()
            votes = self.poll.rounds[-1] if self.poll and self.poll.takes_answers else {}
            labs = dict(self.labs.runs())
            seats: list[SeatState] = [
                {
                    "seat": seat.number,
                    "name": seat.name,
                    "here": seat.is_here,
                    "lost": seat.is_lost,
                    "remote": seat.is_remote,
                    "wish": seat.wish,
                    "answered": seat.key in votes,
                    "lab": seat.key in labs,
                }
                for seat in self._seats.values()
            ]
            return {
                "id": self.id,
                "open": self.is_open,
                "origins": admission.origins(self._seats.values()),
                "seats": seats,
                "lost": self._marks,
                "seconds": time.monotonic() - self._began,
                "asked": len(self.polls),
                "answered": len(votes),
                "tallies": [plain(tally) for tally in self.poll.tallies()] if self.poll else [],
                "labs": len(labs),
                "labs_most": self.labs.max_labs,
                "labs_why": self.labs.limit_reason,
                "waiting": len(self.labs.queue()),
                "kept_until": self.kept_until,
            }

    def notify(self, everybody: bool = True) -> None:
        """Report a change to all members, or only to the presenters."""
        with self._lock:
            self._version += everybody
        self._on_change(self, everybody)

    # Inside

    def seat_of(self, number: int) -> Seat:
        """Return the seat with a number.

        Raises:
            AppError: `refused` if no seat has this number.
        """
        found = next((seat for seat in self._seats.values() if seat.number == number), None)
        if found is None:
            raise refusal("refused", "seat.nobody")
        return found

    def _check_open(self) -> None:
        if self._over:
            raise refusal("refused", "class.over")

    def _remove(self, seat: Seat) -> None:
        """Remove a seat and its answers."""
        if self._driver is seat:
            self._driver = None
        del self._seats[seat.key]
        for poll in self.polls:
            for votes in poll.rounds:
                votes.pop(seat.key, None)

    def _expire(self) -> bool:
        """Remove expired seats. Returns whether there were any."""
        expired = admission.expired(self._seats.values())
        for seat in expired:
            self._remove(seat)
        return bool(expired)
