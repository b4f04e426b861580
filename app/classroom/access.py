"""Permissions of owners of the server, presenters and drivers of a class, and followers.

An owner has the server's token, or connects over the loopback interface if there is no token. A guest has a pass to a
class and may watch the class's run on stage, answer questions, and command a lab. Only the driver of a class may
command the run on stage; other owners may not.
"""

from __future__ import annotations

import threading

from app.classroom.classroom import Classroom
from app.classroom.classrooms import Classrooms
from app.classroom.refusing import refusal
from app.classroom.seats import Seat
from app.ground.callers import ANONYMOUS, Pass, Person


class Access:
    """Permissions of connections, by connection id."""

    def __init__(self, classrooms: Classrooms) -> None:
        self._classrooms = classrooms
        self._people: dict[str, Person] = {}
        self._labs: dict[str, Pass] = {}  # session -> pass of its follower
        self._lock = threading.Lock()

    def add(self, sid: str, person: Person) -> None:
        """Add a connection."""
        self._people[sid] = person

    def forget(self, sid: str) -> None:
        """Remove a connection."""
        self._people.pop(sid, None)
        self._classrooms.forget(sid)

    def person(self, sid: str) -> Person:
        return self._people.get(sid, ANONYMOUS)

    def check_owner(self, sid: str) -> None:
        """Check that the client is an owner.

        Raises:
            AppError: `forbidden`.
        """
        if not self.person(sid).is_owner:
            raise refusal("forbidden", "class.follower")

    def check_drive(self, sid: str, session_id: str) -> None:
        """Check for permission to command a run.

        Raises:
            AppError: `forbidden` if the run belongs to another client, or another client drives the class; `refused`
                for a lab while the class has an open question of a lesson.
        """
        classroom = self._classrooms.of_session(session_id)
        if classroom is not None:
            if not classroom.may_drive(sid):
                if driver := classroom.driver_name:
                    raise refusal("forbidden", "drive.other", name=driver)
                raise refusal("forbidden", "drive.presenter")
            return
        owner = self._labs.get(session_id)
        person = self.person(sid)
        if person.is_owner:
            return
        if owner is not None and owner == person.seat:
            if self._classrooms.get(owner.class_id).has_lesson_question:  # a lab could reveal the answer
                raise refusal("refused", "lab.asked")
            return
        raise refusal("forbidden", "drive.not_yours")

    def check_watch(self, sid: str, session_id: str) -> None:
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
            classroom = self._classrooms.get(person.seat.class_id)
            if classroom.is_over:
                raise refusal("forbidden", "class.yours_over")
            classroom.seat(person.seat.seat)  # raises for a removed seat
            if session_id in classroom.sessions:
                return
        raise refusal("forbidden", "class.not_shown")

    def seat(self, sid: str) -> tuple[Classroom, Seat]:
        """Return the follower at a connection.

        Raises:
            AppError: `forbidden` if the client is not a follower; `not_found` if the class no longer exists.
        """
        classroom, key = self.pass_of(sid)
        return classroom, classroom.seat(key)

    def pass_of(self, sid: str) -> tuple[Classroom, str]:
        """Return the class that a connection has a pass to, and the key of its seat.

        Raises:
            AppError: `forbidden` without a pass; `not_found` if the class no longer exists.
        """
        person = self.person(sid)
        if person.seat is None:
            raise refusal("forbidden", "seat.no_class")
        return self._classrooms.get(person.seat.class_id), person.seat.seat

    def presented_class(self, sid: str, class_id: str) -> Classroom:
        """Return the class if the client presents it.

        Raises:
            AppError: `forbidden`; `not_found`.
        """
        classroom = self._classrooms.get(class_id)
        if sid not in classroom.presenters:
            raise refusal("forbidden", "class.presenter")
        return classroom

    def classroom(self, class_id: str) -> Classroom:
        """Return the class.

        Raises:
            AppError: `not_found`.
        """
        return self._classrooms.get(class_id)

    def find_classroom(self, class_id: str) -> Classroom | None:
        """Return the class; None if it is not in memory."""
        return next((one for one in self._classrooms.all() if one.id == class_id), None)

    def assign_lab(self, session_id: str, owner_pass: Pass | None) -> None:
        """Assign a lab to a follower, or remove the assignment (None)."""
        with self._lock:
            if owner_pass is None:
                self._labs.pop(session_id, None)
            else:
                self._labs[session_id] = owner_pass
