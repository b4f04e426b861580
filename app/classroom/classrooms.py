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
EMPTY = 600.0  # seconds without connections after which a class may be replaced by another
PACE = 0.05  # seconds between two messages to a class
SENDING_SHARE = 0.2  # maximum share of the time for sending them
SLOWEST_PACE = 1.0
DESK_PACE = 0.5  # seconds between two messages to its presenters
EXPIRE_EVERY = 15.0  # seconds without changes after which expired seats are removed
MAX_ADDRESSES = 4096  # whose wrong codes are counted; the oldest are dropped

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
        self._desk_at = 0.0
        self._pace = PACE
        self._wake = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._tell, name="classes", daemon=True)
        self._thread.start()

    def open(self, title: str, names: Names) -> Classroom:
        """Open a new class.

        Raises:
            AppError: `refused` if there are too many.
        """
        with self._lock:
            if len(self._classes) >= MAX_CLASSES:
                free = [one for one in self._classes.values() if one.is_over or one.empty_for >= EMPTY]
                if not free:
                    raise refusal("refused", "class.most", n=MAX_CLASSES)
                del self._classes[max(free, key=lambda one: (one.is_over, one.empty_for)).id]
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

    def lesson_is_at(self, session_id: str, at: int) -> None:
        """Record that a lesson has advanced; a class may have it on stage."""
        if found := self.of_session(session_id):
            found.lesson_is_at(session_id, at)

    def asks(self, session_id: str) -> bool:
        """Return whether a class has an open, unrevealed question of the lesson on this session."""
        found = self.of_session(session_id)
        poll = found.poll if found else None
        return bool(poll and poll.lesson and poll.lesson.session == session_id and poll.phase != "shown")

    # Passes

    def new_pass(self, given: str, address: str, had: Pass | None) -> str | None:
        """Issue a pass for a join code, or for the link with a class's key (`code.key`).

        Passes are not limited; seats are (`admission`).

        Args:
            had: a pass that the browser already has.

        Returns:
            The text of a pass; None if `had` is one of this class.

        Raises:
            AppError: `not_found` for a wrong code; `busy` after too many tries; `refused` when doors are closed.
        """
        code, _, key = given.partition(".")
        found = next((one for one in self.all() if not one.is_over and one.code == as_code(code)), None)
        if key:
            if found is None or not secrets.compare_digest(key.encode(), found.key.encode()):
                raise refusal("not_found", "door.link")
        elif (guesses := self._guesses.get(address)) is not None and guesses.is_empty:
            raise refusal("busy", "door.guesses")
        elif found is None:
            self._guess(address).take()
            raise refusal("not_found", "door.code")
        has_pass = had is not None and had.class_id == found.id
        if not (had and has_pass and found.has_seat(had.seat)):
            found.check_doors()
        return None if has_pass else self._passes.new(found.id)

    def known(self, text: str) -> Pass | None:
        """Return the pass; None if it is invalid or of no current class."""
        found = self._passes.read(text) if text else None
        return found if found and found.class_id in self._classes else None

    def forget(self, sid: str) -> None:
        """Remove a closed connection from all classes."""
        for one in self.all():
            one.forget(sid)

    def close(self) -> None:
        """Stop sending."""
        self._closed = True
        self._wake.set()
        self._thread.join()

    def _guess(self, address: str) -> Allowance:
        """Return the allowance of wrong codes of an address."""
        of = self._guesses
        with self._lock:
            found = of.pop(address, None) or Allowance(BURST, RATE)
            of[address] = found  # the newest is last
            while len(of) > MAX_ADDRESSES:
                del of[next(iter(of))]
        return found

    # Messages

    def _changed(self, one: Classroom, everybody: bool) -> None:
        with self._lock:
            self._desks.add(one.id)
            if everybody:
                self._due.add(one.id)
        self._wake.set()

    def _tell(self) -> None:
        """Send changes in rounds: each message has the whole state, so changes during a send are in the next."""
        while not self._closed:
            if not self._wake.wait(EXPIRE_EVERY):
                for one in self.all():
                    one.remove_expired()
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
            one = classes[class_id]
            self._say("class", one.state, one.sids(), self._was_sent)
        for class_id in desks & classes.keys():
            one = classes[class_id]
            if not one.is_over:
                self._say("class_desk", one.desk, list(one.presenters))

    def _was_sent(self, seconds: float) -> None:
        """Lower the message rate with the time that sending to a large class takes."""
        self._pace = min(max(PACE, seconds / SENDING_SHARE), SLOWEST_PACE)

    def _say(
        self,
        event: str,
        what: Callable[[], Mapping[str, Any]],
        sids: list[str],
        sent: Callable[[float], None] | None = None,
    ) -> None:
        """Send a message. An error is logged, so that it does not affect other classes."""
        try:
            if sids:
                self._send(event, what(), sids, None, sent)
        except Exception:
            logger.exception("event %s", event)
