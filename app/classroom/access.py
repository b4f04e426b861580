"""Permissions: owners of the server, presenters and drivers of a class, followers.

An owner has the server's token, or the loopback interface where there is none. A guest has a pass to a class, and may
watch that class's run on stage, answer, and command a run of their own. Only the driver of a class commands the run
that it has on stage; other owners do not.
"""

from __future__ import annotations

import threading

from app.classroom.classroom import Classroom
from app.classroom.classrooms import Classrooms
from app.classroom.refusing import refusal
from app.classroom.seats import Seat
from app.ground.callers import ANONYMOUS, Pass, Person


class Access:
    """Permissions of connections, by id."""

    def __init__(self, classrooms: Classrooms) -> None:
        self._classrooms = classrooms
        self._people: dict[str, Person] = {}
        self._labs: dict[str, Pass] = {}  # session -> pass of its follower
        self._lock = threading.Lock()

    def come(self, sid: str, person: Person) -> None:
        """Add a connection."""
        self._people[sid] = person

    def forget(self, sid: str) -> None:
        """Remove a connection."""
        self._people.pop(sid, None)
        self._classrooms.forget(sid)

    def person(self, sid: str) -> Person:
        return self._people.get(sid, ANONYMOUS)

    def own(self, sid: str) -> None:
        """Check that the client is an owner.

        Raises:
            AppError: `forbidden`.
        """
        if not self.person(sid).is_owner:
            raise refusal("forbidden", "class.follower")

    def drive(self, sid: str, session_id: str) -> None:
        """Check for permission to command a run.

        Raises:
            AppError: `forbidden`, if the run is another client's, or another client drives the class; `refused` for a
                lab, while the class has an open question of a lesson.
        """
        found = self._classrooms.of_session(session_id)
        if found is not None:
            if not found.may_drive(sid):
                if driver := found.driver_name:
                    raise refusal("forbidden", "drive.other", name=driver)
                raise refusal("forbidden", "drive.presenter")
            return
        owner = self._labs.get(session_id)
        person = self.person(sid)
        if person.is_owner:
            return
        if owner is not None and owner == person.seat:
            if self._classrooms.get(owner.class_id).is_asked_by_lesson:  # a lab could be run to the answer
                raise refusal("refused", "lab.asked")
            return
        raise refusal("forbidden", "drive.not_yours")

    def watch(self, sid: str, session_id: str) -> None:
        """Check for permission to read a run.

        Raises:
            AppError: `forbidden`.
        """
        person = self.person(sid)
        if person.is_owner:
            return
        if person.seat is not None:
            if self._labs.get(session_id) == person.seat:
                return
            found = self._classrooms.get(person.seat.class_id)
            if found.is_over:
                raise refusal("forbidden", "class.yours_over")
            found.seat(person.seat.seat)  # raises for a removed seat
            if session_id in found.sessions:
                return
        raise refusal("forbidden", "class.not_shown")

    def seat(self, sid: str) -> tuple[Classroom, Seat]:
        """Return the follower at a connection.

        Raises:
            AppError: `forbidden` for another client; `not_found` if the class is gone.
        """
        found, key = self.pass_of(sid)
        return found, found.seat(key)

    def pass_of(self, sid: str) -> tuple[Classroom, str]:
        """Return the class that a connection has a pass to, and the key of its seat.

        Raises:
            AppError: `forbidden` without a pass; `not_found` if the class is gone.
        """
        person = self.person(sid)
        if person.seat is None:
            raise refusal("forbidden", "seat.no_class")
        return self._classrooms.get(person.seat.class_id), person.seat.seat

    def presents(self, sid: str, class_id: str) -> Classroom:
        """Return the class if the client presents it.

        Raises:
            AppError: `forbidden`; `not_found`.
        """
        found = self._classrooms.get(class_id)
        if sid not in found.presenters:
            raise refusal("forbidden", "class.presenter")
        return found

    def classroom(self, class_id: str) -> Classroom:
        """Return the class.

        Raises:
            AppError: `not_found`.
        """
        return self._classrooms.get(class_id)

    def find_classroom(self, class_id: str) -> Classroom | None:
        """Return the class; None if it is not in memory."""
        return next((one for one in self._classrooms.all() if one.id == class_id), None)

    def lab(self, session_id: str, of: Pass | None) -> None:
        """Assign a run to a follower; None unassigns it."""
        with self._lock:
            if of is None:
                self._labs.pop(session_id, None)
            else:
                self._labs[session_id] = of
