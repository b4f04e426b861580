"""Classes of a server: creation, lookup, passes, and messages to their members."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from app.classroom.answers import Names
from app.classroom.classroom import Classroom
from app.classroom.codes import BURST, RATE, Allowance, Passes, as_code
from app.classroom.refusing import refusal
from app.ground.callers import Pass
from app.session.broadcast import Emit

MAX_CLASSES = 64  # of one server
EMPTY = 600.0  # seconds without connections after which a class may be replaced by a new one
PACE = 0.05  # seconds between two messages to a class
SENDING_SHARE = 0.2  # maximum share of wall time spent sending
SLOWEST_PACE = 1.0  # seconds
DESK_PACE = 0.5  # seconds between two messages to the presenters of a class
EXPIRE_EVERY = 15.0  # seconds without changes after which expired seats are removed
MAX_ADDRESSES = 4096  # addresses for which wrong codes are counted; the oldest are dropped

logger = logging.getLogger(__name__)


class Classrooms:
    """All classes."""

    def __init__(self, send: Emit) -> None:
        self._send = send
        self._classes: dict[str, Classroom] = {}
        self._passes = Passes()
        self._guesses: dict[str, Allowance] = {}  # wrong codes, by address
        self._lock = threading.Lock()
        self._due: set[str] = set()  # classes with changes for all their members
        self._desks: set[str] = set()  # classes with changes for their presenters
        self._desk_at = 0.0  # time of the last messages to presenters
        self._pace = PACE
        self._wake = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._send_changes, name="classes", daemon=True)
        self._thread.start()

    def open(self, title: str, names: Names) -> Classroom:
        """Open a new class.

        Raises:
            AppError: `refused` if there are too many.
        """
        with self._lock:
            if len(self._classes) >= MAX_CLASSES:
                free = [one for one in self._classes.values() if one.is_over or one.seconds_empty >= EMPTY]
                if not free:
                    raise refusal("refused", "class.most", n=MAX_CLASSES)
                del self._classes[max(free, key=lambda one: (one.is_over, one.seconds_empty)).id]
            found = Classroom(secrets.token_urlsafe(6), title, names, self._changed)
            self._classes[found.id] = found
        return found

    def get(self, class_id: str) -> Classroom:
        """Return the class.

        Raises:
            AppError: `not_found`.
        """
        found = self._classes.get(class_id)
        if found is None:
            raise refusal("not_found", "class.gone")
        return found

    def all(self) -> list[Classroom]:
        with self._lock:
            return list(self._classes.values())

    def of_session(self, session_id: str) -> Classroom | None:
        """Return the class that has, or had, a session on stage."""
        return next((one for one in self.all() if session_id in one.sessions and not one.is_over), None)

    def set_lesson_position(self, session_id: str, at: int) -> None:
        """Record that a lesson has advanced, in case a class has it on stage."""
        if found := self.of_session(session_id):
            found.set_lesson_position(session_id, at)

    def has_open_question(self, session_id: str) -> bool:
        """Return whether the class of this session has a question of its lesson that is not revealed yet."""
        found = self.of_session(session_id)
        poll = found.poll if found else None
        return bool(poll and poll.lesson and poll.lesson.session == session_id and poll.phase != "shown")

    # Passes

    def new_pass(self, credential: str, address: str, existing: Pass | None) -> str | None:
        """Issue a pass for a join code, or for the `code.key` of a join link.

        The number of passes is not limited; that of seats is (`admission`).

        Args:
            existing: a pass that the browser already has.

        Returns:
            The text of a pass; None if `existing` is a pass to this class.

        Raises:
            AppError: `not_found` for a wrong code; `busy` after too many wrong ones; `refused` while no new members are
                admitted.
        """
        code, _, key = credential.partition(".")
        found = next((one for one in self.all() if not one.is_over and one.code == as_code(code)), None)
        if key:
            if found is None or not secrets.compare_digest(key.encode(), found.key.encode()):
                raise refusal("not_found", "door.link")
        elif (guesses := self._guesses.get(address)) is not None and guesses.is_empty:
            raise refusal("busy", "door.guesses")
        elif found is None:
            self._guess(address).take()
            raise refusal("not_found", "door.code")
        has_pass = existing is not None and existing.class_id == found.id
        if not (existing and has_pass and found.has_seat(existing.seat)):
            found.check_admission()
        return None if has_pass else self._passes.new(found.id)

    def read_pass(self, text: str) -> Pass | None:
        """Return the pass; None if it is invalid or its class no longer exists."""
        found = self._passes.read(text) if text else None
        return found if found and found.class_id in self._classes else None

    def forget(self, sid: str) -> None:
        """Remove a closed connection from all classes."""
        for classroom in self.all():
            classroom.forget(sid)

    def close(self) -> None:
        """Stop sending."""
        self._closed = True
        self._wake.set()
        self._thread.join()

    def _guess(self, address: str) -> Allowance:
        """Return the allowance of wrong codes of an address."""
        guesses = self._guesses
        with self._lock:
            found = guesses.pop(address, None) or Allowance(BURST, RATE)
            guesses[address] = found  # the newest is last
            while len(guesses) > MAX_ADDRESSES:
                del guesses[next(iter(guesses))]
        return found

    # Messages

    def _changed(self, classroom: Classroom, everybody: bool) -> None:
        with self._lock:
            self._desks.add(classroom.id)
            if everybody:
                self._due.add(classroom.id)
        self._wake.set()

    def _send_changes(self) -> None:
        """Send changed states in rounds. Changes made while a round is sent are sent in the next one."""
        while not self._closed:
            if not self._wake.wait(EXPIRE_EVERY):
                for classroom in self.all():
                    classroom.remove_expired()
                continue
            self._wake.clear()
            self._round()
            time.sleep(self._pace)
            if self._desks:
                self._wake.set()

    def _round(self) -> None:
        now = time.monotonic()
        with self._lock:
            due, self._due = self._due, set()
            desks: set[str] = set()
            if now >= self._desk_at + DESK_PACE:
                desks, self._desks, self._desk_at = self._desks, set(), now
            classes = dict(self._classes)
        for class_id in due & classes.keys():
            classroom = classes[class_id]
            self._send_message("class", classroom.state, classroom.sids(), self._was_sent)
        for class_id in desks & classes.keys():
            classroom = classes[class_id]
            if not classroom.is_over:
                self._send_message("class_desk", classroom.desk, list(classroom.presenters))

    def _was_sent(self, seconds: float) -> None:
        """Adapt the pace to the time that sending to a large class takes."""
        self._pace = min(max(PACE, seconds / SENDING_SHARE), SLOWEST_PACE)

    def _send_message(
        self,
        event: str,
        payload: Callable[[], Mapping[str, Any]],
        sids: list[str],
        sent: Callable[[float], None] | None = None,
    ) -> None:
        """Send a message. Errors are logged, so that they do not affect other classes."""
        try:
            if sids:
                self._send(event, payload(), sids, None, sent)
        except Exception:
            logger.exception("sending event %s failed", event)
