"""Permission checks of socket events.

A check returns the objects that it looked up, which are passed to the handler after the message. It raises an AppError:
`forbidden`, or `not_found` if the class no longer exists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from app.classroom.access import Access
from app.classroom.classroom import Classroom
from app.classroom.refusing import refusal
from app.classroom.seats import Seat

Right = Callable[[Access, str, Any], tuple[Any, ...]]


class Event(NamedTuple):
    """Socket event: the type of its message, its permission check, and its handler."""

    message: type[Any]
    right: Right
    handle: Callable[..., Any]  # (handlers, sid, message, *objects returned by the check)


def anyone(access: Access, sid: str, message: Any) -> tuple[()]:
    """Allow every connection."""
    return ()


def owner(access: Access, sid: str, message: Any) -> tuple[()]:
    """Allow owners of the server."""
    access.check_owner(sid)
    return ()


def watcher(access: Access, sid: str, message: Any) -> tuple[()]:
    """Allow viewers of the run `theater`."""
    access.check_watch(sid, message.session)
    return ()


def driver(access: Access, sid: str, message: Any) -> tuple[()]:
    """Allow the driver of the class that has the run on stage, the follower whose lab it is, and otherwise owners."""
    access.check_drive(sid, message.session)
    return ()


def driving_owner(access: Access, sid: str, message: Any) -> tuple[()]:
    """Allow owners who command the run."""
    access.check_owner(sid)
    access.check_drive(sid, message.session)
    return ()


def presenter(access: Access, sid: str, message: Any) -> tuple[Classroom]:
    """Allow presenters of the class `message.id`."""
    return (access.presented_class(sid, message.id),)


def presenter_or_heir(access: Access, sid: str, message: Any) -> tuple[Classroom]:
    """Allow presenters of the class, or any owner while no presenter is connected, since the secret may be lost."""
    classroom = access.classroom(message.id)
    if classroom.presenters:
        access.presented_class(sid, message.id)
    access.check_owner(sid)
    return (classroom,)


def presenter_or_keeper(access: Access, sid: str, message: Any) -> tuple[Classroom | None]:
    """Allow presenters of a running class, and any owner afterwards. Returns None for a class not in memory."""
    access.check_owner(sid)
    classroom = access.find_classroom(message.id)
    if classroom is not None and not classroom.is_over:
        access.presented_class(sid, message.id)
    return (classroom,)


def class_driver(access: Access, sid: str, message: Any) -> tuple[Classroom]:
    """Allow the driver of the class `message.id`."""
    classroom = access.classroom(message.id)
    if not classroom.may_drive(sid):
        raise refusal("forbidden", "drive.class")
    return (classroom,)


def remote(access: Access, sid: str, message: Any) -> tuple[Classroom]:
    """Allow presenters of the class, and followers with a remote control."""
    classroom = access.classroom(message.id)
    if sid not in classroom.presenters:
        attended, seat = access.seat(sid)
        if attended is not classroom or not seat.is_remote:
            raise refusal("forbidden", "drive.no_remote")
    return (classroom,)


def pass_holder(access: Access, sid: str, message: Any) -> tuple[Classroom, str]:
    """Allow holders of a pass. Returns the class and the key of the seat."""
    return access.pass_of(sid)


def follower(access: Access, sid: str, message: Any) -> tuple[Classroom, Seat]:
    """Allow followers with a seat. Returns the class and the seat."""
    return access.seat(sid)
