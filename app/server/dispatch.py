"""Dispatch of socket events: parse the message, check the permission, call the handler, acknowledge."""

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
READ_ONLY = frozenset({"join", "leave", "read", "lesson_look"})  # events that do not wait for the run's engine
Result = Ack | Answer | Future[Performed]
M = TypeVar("M")
logger = logging.getLogger(__name__)


def register(
    clients: Clients,
    events: Events,
    lessons: LessonEvents,
    class_events: ClassEvents,
    access: Access,
    sessions: SessionManager,
) -> None:
    """Register the handlers of all events and connections."""
    commands = bounds.Commands(access)
    reads = bounds.Commands(access, bounds.MAX_READS_PER_GUEST, Limits().all_events)
    for handlers, table in ((events, EVENTS), (lessons, LESSON_EVENTS), (class_events, CLASS_EVENTS)):
        for name, event in table.items():
            bounded = reads if name == "read" else None
            if bounded is None and issubclass(event.message, OfSession) and name not in READ_ONLY:
                bounded = commands
            answer = _answer(name, event, handlers, access, bounded)
            clients.on(name, answer, _busy, READ_BYTES if name == "read" else 0)
    clients.on("*", _unknown, _busy)

    def on_connect(sid: str, environ: Mapping[str, Any]) -> None:
        access.add(sid, Person(bool(environ.get(OWNER)), environ.get(PASS), environ.get(ADDRESS, "")))
        events.greet(sid)

    def on_disconnect(sid: str) -> None:
        sessions.forget_viewer(sid)
        access.forget(sid)

    clients.on_connections(on_connect, on_disconnect)
    clients.limit_guests(guest)


def _answer(
    name: str, event: Event, handlers: object, access: Access, bounded: bounds.Commands | None
) -> Callable[[str, tuple[Any, ...]], Ack | Answer]:
    """Return the handler of one event. `bounded`: limits the number of pending events."""

    def handle(sid: str, message: Any) -> Result:
        result: Result = event.handle(handlers, sid, message, *event.right(access, sid, message))
        return result

    def on_event(sid: str, arguments: tuple[Any, ...]) -> Ack | Answer:
        try:
            if len(arguments) > 1:
                raise AppError("bad_request", f"{name} takes one map, not {len(arguments)} values")
            message = parse(arguments[0] if arguments else {}, event.message)
            result = _handle_counted(bounded, handle, sid, message) if bounded else handle(sid, message)
        except Exception as error:
            return _failed(name, error)
        if isinstance(result, Future):
            return Answer(_ack_of(name, result))
        if isinstance(result, Answer):
            return Answer({"ok": True, **result.ack}, result.then)  # type: ignore[dict-item]
        return {"ok": True, **result}

    return on_event


def _handle_counted(commands: bounds.Commands, handle: Callable[[str, M], Result], sid: str, message: M) -> Result:
    """Handle a command, which counts as pending until its result is there."""
    done = commands.begin(sid)
    try:
        result = handle(sid, message)
    except BaseException:
        done()
        raise
    if isinstance(result, Future):
        result.add_done_callback(lambda _: done())
    else:
        done()
    return result


def _ack_of(name: str, steps: Future[Performed]) -> Future[Ack]:
    """Return the acknowledgement of pending steps as a future, so that no thread waits for them."""
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


def _busy(reason: str) -> Ack:
    return _failed("", refuse("busy", "server.busy", why=reason))


def _unknown(_: str, arguments: tuple[Any, ...]) -> Ack:
    event = arguments[0] if arguments else None
    return _failed("", AppError("bad_request", f"there is no event {str(event)[:60]!r}"))
