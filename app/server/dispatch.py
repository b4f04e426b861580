"""Dispatch of the socket's events: parse the message, check the right, call the handler, acknowledge."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from app.classroom import bounds
from app.classroom.access import Access
from app.classroom.events import CLASS_EVENTS, ClassEvents
from app.classroom.rights import Event
from app.ground.callers import ADDRESS, OWNER, PASS, Person, guest
from app.ground.errors import AppError, one_sentence, refusal_of, refuse
from app.ground.limits import Limits
from app.server.events import EVENTS, READ_BYTES, Events
from app.server.lesson_events import LESSON_EVENTS, LessonEvents
from app.session.jobs import Performed
from app.session.messages import OfSession, parse
from app.session.session_manager import SessionManager
from app.transport.clients import Ack, Answer, Clients

ALL_EVENTS: dict[str, Event] = {**EVENTS, **LESSON_EVENTS, **CLASS_EVENTS}
LOOKS = frozenset({"join", "leave", "read", "lesson_look"})  # need no turn of the run that they are about
Given = Ack | Answer | Future[Performed]
M = TypeVar("M")
logger = logging.getLogger(__name__)


def register(
    clients: Clients,
    events: Events,
    lessons: LessonEvents,
    of_class: ClassEvents,
    access: Access,
    sessions: SessionManager,
) -> None:
    """Put the handlers on the socket."""
    commands = bounds.Commands(access)
    reads = bounds.Commands(access, bounds.MAX_READS_PER_GUEST, Limits().all_events)
    for handlers, table in ((events, EVENTS), (lessons, LESSON_EVENTS), (of_class, CLASS_EVENTS)):
        for name, event in table.items():
            bounded = reads if name == "read" else None
            if bounded is None and issubclass(event.message, OfSession) and name not in LOOKS:
                bounded = commands
            answer = _answer(name, event, handlers, access, bounded)
            clients.on(name, answer, _busy, READ_BYTES if name == "read" else 0)
    clients.on("*", _unknown, _busy)

    def come(sid: str, environ: Mapping[str, Any]) -> None:
        access.add(sid, Person(bool(environ.get(OWNER)), environ.get(PASS), environ.get(ADDRESS, "")))
        events.greet(sid)

    def gone(sid: str) -> None:
        sessions.forget_viewer(sid)
        access.forget(sid)

    clients.on_connections(come, gone)
    clients.limit_guests(guest)


def _answer(
    name: str, event: Event, handlers: object, access: Access, bounded: bounds.Commands | None
) -> Callable[[str, tuple[Any, ...]], Ack | Answer]:
    """Return the handler of one event. `bounded`: counts it as pending until it is answered."""

    def handle(sid: str, message: Any) -> Given:
        found: Given = event.handle(handlers, sid, message, *event.right(access, sid, message))
        return found

    def on_event(sid: str, arguments: tuple[Any, ...]) -> Ack | Answer:
        try:
            if len(arguments) > 1:
                raise AppError("bad_request", f"{name} takes one map, not {len(arguments)} values")
            message = parse(arguments[0] if arguments else {}, event.message)
            found = _counted(bounded, handle, sid, message) if bounded else handle(sid, message)
        except Exception as error:
            return _failed(name, error)
        if isinstance(found, Future):
            return Answer(_later(name, found))
        if isinstance(found, Answer):
            return Answer({"ok": True, **found.ack}, found.then)  # type: ignore[dict-item]
        return {"ok": True, **found}

    return on_event


def _counted(commands: bounds.Commands, handle: Callable[[str, M], Given], sid: str, message: M) -> Given:
    """Count a command as pending until its answer, if that comes later."""
    done = commands.begin(sid)
    try:
        found = handle(sid, message)
    except BaseException:
        done()
        raise
    if isinstance(found, Future):
        found.add_done_callback(lambda _: done())
    else:
        done()
    return found


def _later(name: str, steps: Future[Performed]) -> Future[Ack]:
    """Return the acknowledgement of pending steps, for which no thread waits."""
    acknowledgement: Future[Ack] = Future()

    def end(done: Future[Performed]) -> None:
        try:
            acknowledgement.set_result({"ok": True, **done.result()._asdict()})
        except Exception as error:
            acknowledgement.set_result(_failed(name, error))

    steps.add_done_callback(end)
    return acknowledgement


def _failed(name: str, error: Exception) -> Ack:
    refusal = refusal_of(error)
    if refusal is None:
        logger.exception("event %s", name, exc_info=error)
    refusal = refusal or AppError("internal", f"{name} failed: {one_sentence(error)}")
    return {"ok": False, **refusal.as_map()}


def _busy(why: str) -> Ack:
    return _failed("", refuse("busy", "server.busy", why=why))


def _unknown(_: str, arguments: tuple[Any, ...]) -> Ack:
    event = arguments[0] if arguments else None
    return _failed("", AppError("bad_request", f"there is no event {str(event)[:60]!r}"))
