"""Permissions of socket events: each event has a function that checks its sender.

A right returns the objects that it looked up, and the handler receives them after the message. A refusal is an AppError
`forbidden`, or `not_found` for a class that is gone.
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
    """Socket event: its message, its permission, and its handler."""

    message: type[Any]
    right: Right
    handle: Callable[..., Any]  # (handlers, sid, message, *what the right returns)


def anyone(access: Access, sid: str, message: Any) -> tuple[()]:
    """Allow every connection."""
    return ()


def owner(access: Access, sid: str, message: Any) -> tuple[()]:
    """Allow owners of the server."""
    access.own(sid)
    return ()


def watcher(access: Access, sid: str, message: Any) -> tuple[()]:
    """Allow viewers of the run `theater`."""
    access.watch(sid, message.session)
    return ()


def driver(access: Access, sid: str, message: Any) -> tuple[()]:
    """Allow the commander of the run `theater`: its class's driver, its follower, else an owner."""
    access.drive(sid, message.session)
    return ()


def driving_owner(access: Access, sid: str, message: Any) -> tuple[()]:
    """Allow owners who command the run."""
    access.own(sid)
    access.drive(sid, message.session)
    return ()


def presenter(access: Access, sid: str, message: Any) -> tuple[Classroom]:
    """Allow presenters of the class `message.id`."""
    return (access.presents(sid, message.id),)


def presenter_or_heir(access: Access, sid: str, message: Any) -> tuple[Classroom]:
    """Allow presenters of the class, or any owner while it has none, since the secret may be lost."""
    found = access.classroom(message.id)
    if found.presenters:
        access.presents(sid, message.id)
    access.own(sid)
    return (found,)


def presenter_or_keeper(access: Access, sid: str, message: Any) -> tuple[Classroom | None]:
    """Allow presenters of the class while it is open; any owner afterwards. Returns None if it is not in memory."""
    access.own(sid)
    found = access.find_classroom(message.id)
    if found is not None and not found.is_over:
        access.presents(sid, message.id)
    return (found,)


def class_driver(access: Access, sid: str, message: Any) -> tuple[Classroom]:
    """Allow the driver of the class `message.id`."""
    found = access.classroom(message.id)
    if not found.may_drive(sid):
        raise refusal("forbidden", "drive.class")
    return (found,)


def remote(access: Access, sid: str, message: Any) -> tuple[Classroom]:
    """Allow presenters of the class, and followers with a remote control."""
    found = access.classroom(message.id)
    if sid not in found.presenters:
        attended, seat = access.seat(sid)
        if attended is not found or not seat.is_remote:
            raise refusal("forbidden", "drive.no_remote")
    return (found,)


def pass_holder(access: Access, sid: str, message: Any) -> tuple[Classroom, str]:
    """Allow holders of a pass. Returns the class and the key of the seat."""
    return access.pass_of(sid)


def follower(access: Access, sid: str, message: Any) -> tuple[Classroom, Seat]:
    """Allow followers with a seat. Returns the class and the seat."""
    return access.seat(sid)
