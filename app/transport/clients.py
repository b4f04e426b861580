"""Socket.IO server. Workers handle events, and any thread may send messages, within limits per client."""

from __future__ import annotations

import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple, Protocol

import flask
import gevent
from flask import Flask
from flask_socketio import SocketIO
from socketio import Manager

from app.ground.limits import Limits
from app.transport.hub import Hub, Workers
from app.transport.outbox import Outbox, UnsentBytes
from app.transport.packets import NAMESPACE, RELAYED, Message, SharedPacket, packed_ack, packed_event
from app.transport.pending_events import Client, PendingEvents
from app.transport.pings import task
from app.transport.polling import Polling
from app.transport.websocket import WebSocket

_silent = logging.getLogger(f"{__name__}.protocol")
_silent.disabled = True
PING_TIMEOUT = 60  # seconds; long, because a ping may be queued behind a batch on a slow connection

Ack = Mapping[str, Any]
Acknowledged = Callable[[str], None]  # called with the recipient's id
Sent = Callable[[float], None]  # called with the duration in seconds


def _no_op() -> None: ...


class Answer(NamedTuple):
    """Result of a handler: an acknowledgement or its future, and a callback."""

    ack: Ack | Future[Ack]
    then: Callable[[], None] = _no_op  # called after the acknowledgement is queued, before any other message


Handler = Callable[[str, tuple[Any, ...]], Ack | Answer]  # called with a client's id and an event's arguments


class RemoteClients(Protocol):
    """Clients of other processes. On the hub thread only."""

    def has(self, sid: str) -> bool: ...

    def deliver(
        self,
        packed: bytes,
        sids: Collection[str] | None,
        number: int | None,
        acknowledged: Acknowledged | None,
        sent: Sent | None,
    ) -> None:
        """Send a packet to clients (None: to all). `sent` is always called."""


class Clients:
    """All connected clients."""

    def __init__(
        self, app: Flask, hub: Hub, limits: Limits, max_message_bytes: int, packets: type[Message] = Message
    ) -> None:
        """Wrap the WSGI application of `app`."""
        self._hub, self._limits = hub, limits
        self._ids = itertools.count(1)
        self._clients: dict[str, Client] = {}  # by Socket.IO id
        self._pending = PendingEvents(limits)
        self._handlers: dict[str, Handler] = {}
        self.remote: RemoteClients | None = None
        self._workers: Workers | None = None
        self.on_connect: Callable[[str, Mapping[str, Any]], None] = lambda sid, environ: None
        self.on_disconnect: Callable[[str], None] = lambda sid: None
        self._guest_of: Callable[[Mapping[str, Any]], Hashable | None] = lambda _: None
        self._unconnected: deque[tuple[float, str]] = deque()  # new sessions, with their deadlines to connect
        self._watcher: gevent.Greenlet | None = None
        self._groups: dict[Hashable, set[Client]] = {}  # by guest
        self._sessions: dict[Hashable, list[str]] = {}  # Engine.IO ids by guest, newest last
        self._manager = _Manager()
        self._socketio = SocketIO(
            app,
            async_mode="gevent",
            serializer=packets,
            client_manager=self._manager,
            manage_session=False,
            cors_allowed_origins=[],  # app/server/security.py checks origins
            max_http_buffer_size=max_message_bytes,
            http_compression=False,  # compressing a batch takes longer on the hub thread than sending it
            ping_timeout=PING_TIMEOUT,
            logger=_silent,  # errors of clients are not logged
            engineio_logger=_silent,
        )
        app.wsgi_app = Polling(app.wsgi_app, limits, max_message_bytes)  # type: ignore[method-assign]
        server = self._socketio.server
        self._engine = server.eio
        self._unsent = UnsentBytes(limits)
        self._engine._async = {
            **self._engine._async,
            "websocket": WebSocket,
            "queue": partial(Outbox, self._unsent),
            "thread": task,
        }
        self._dispatch, self._greet = server._handle_eio_message, server._handle_eio_connect
        self._engine.on("message", self._on_message)
        self._engine.on("connect", self._on_session)

    def begin(self, workers: Workers) -> None:
        """Set the workers, on the hub thread, before the first client."""
        self._workers = workers

    @property
    def waiting_bytes(self) -> int:
        """Unsent bytes of all clients."""
        return self._unsent.total

    def on_freed(self, callback: Callable[[int], None]) -> None:
        """Set a callback on the hub thread that gets the number of bytes of released memory."""
        self._unsent.on_freed = callback

    def __len__(self) -> int:
        return len(self._clients)

    def on(self, event: str, handle: Handler, busy: Callable[[str], Ack], answer_bytes: int = 0) -> None:
        """Register `handle(sid, arguments)` for an event. It runs on a worker.

        `busy(reason)` returns the acknowledgement for a client with too many pending events. `answer_bytes`: maximum
        size of a large acknowledgement. The handler of `*` gets all other events, with the name as first argument.
        """
        self._handlers[event] = handle

        def on_event(*arguments: Any) -> Ack | None:
            sid = _sid()
            *rest, size = arguments
            client = self._clients.get(sid)
            if client is None or self._workers is None:
                return None
            if reason := self._pending.accept(client, size, answer_bytes):
                return busy(reason)
            try:
                ack, then = self._execute(handle, sid, tuple(rest))
                gevent.get_hub().loop.run_callback(then)  # after the acknowledgement is queued
                return ack
            finally:
                self._pending.done(client, size, answer_bytes)
                if sid not in self._clients:  # the client disconnected meanwhile, for example while it became a viewer
                    self.on_disconnect(sid)

        self._socketio.on_event(event, on_event)

    def handle_remote(self, sid: str, message: bytes) -> tuple[bytes | None, Callable[[], None]]:
        """Handle an event of a client of another process. Called on a greenlet.

        Returns the packet of the acknowledgement (None: not requested), and a callback to call after it was sent.
        """
        event = Message(encoded_packet=message)
        name, *arguments, _ = event.data
        handle = self._handlers.get(name) if isinstance(name, str) else None
        with_name = (name, *arguments) if handle is None or name == "*" else tuple(arguments)
        ack, then = self._execute(handle or self._handlers["*"], sid, with_name)
        return (None if event.id is None else packed_ack(ack, event.id)), then

    def forward_events(
        self, forward: Callable[[str, bytes, Callable[[], None]], None], busy: Callable[[str], Ack]
    ) -> None:
        """Forward all events to another process.

        `forward(sid, message, on_handled)` is called on the hub thread. It calls `on_handled` after the acknowledgement
        was delivered.
        """

        def on_event(message: bytes, number: int | None) -> None:
            sid, size = _sid(), len(message)
            client = self._clients.get(sid)
            if client is None:
                return
            if reason := self._pending.accept(client, size):
                if number is not None:
                    self.deliver(packed_ack(busy(reason), number), [sid])
            else:
                forward(sid, message, partial(self._pending.done, client, size))

        self._socketio.on_event(RELAYED, on_event)

    def _execute(self, handle: Handler, sid: str, arguments: tuple[Any, ...]) -> tuple[Ack, Callable[[], None]]:
        assert self._workers is not None
        found = self._workers.do(handle, sid, arguments)
        answer = found if isinstance(found, Answer) else Answer(found)
        ack = self._hub.wait_for(answer.ack) if isinstance(answer.ack, Future) else answer.ack
        return ack, answer.then

    def on_connections(
        self, on_connect: Callable[[str, Mapping[str, Any]], None], on_disconnect: Callable[[str], None]
    ) -> None:
        """Set callbacks, which run on the hub thread.

        `on_connect(sid, environ)` is called for a new client, with the environment of its request. `on_disconnect(sid)`
        is called after the client disconnected, and again after each of its pending events.
        """

        def connect(*_: Any) -> None:
            sid = _sid()
            engine_sid = self._manager.eio_sid_from_sid(sid, NAMESPACE)
            socket = self._engine.sockets[engine_sid]
            client = self._clients[sid] = Client(socket.queue, self._group(flask.request.environ))
            client.outbox.on_give_up = lambda: gevent.get_hub().loop.run_callback(self._drop, engine_sid)
            on_connect(sid, flask.request.environ)

        def disconnect(*_: Any) -> None:
            sid = _sid()
            if client := self._clients.pop(sid, None):
                client.outbox.close()
                client.group.discard(client)
            on_disconnect(sid)

        self.on_connect, self.on_disconnect = on_connect, on_disconnect
        self._socketio.on_event("connect", connect)
        self._socketio.on_event("disconnect", disconnect)

    def emit(
        self,
        event: str,
        data: Mapping[str, Any],
        sids: Sequence[str],
        acknowledged: Acknowledged | None = None,
        sent: Sent | None = None,
    ) -> None:
        """Queue an event for clients. May be called on any thread. The event is encoded once for all clients.

        `acknowledged` requests acknowledgements. It is called with the id of each client that acknowledges. `sent` is
        called with the seconds until the event was written to all reachable clients. Both run on the hub thread.
        """
        number = next(self._ids) if acknowledged else None
        packed = packed_event(event, data, number)
        recipients = list(sids)

        def queue() -> None:
            remote = self.remote
            remote_sids = {sid for sid in recipients if remote.has(sid)} if remote else set()
            if remote is None or not remote_sids:
                self.deliver(packed, recipients, number, acknowledged, sent)
                return
            slowest = Slowest(2, sent) if sent else None
            remote.deliver(packed, remote_sids, number, acknowledged, slowest)
            self.deliver(packed, [sid for sid in recipients if sid not in remote_sids], number, acknowledged, slowest)

        self._hub.call(queue)

    def emit_to_all(self, event: str, data: Mapping[str, Any]) -> None:
        """Queue an event for all clients connected at the time of sending. May be called on any thread."""
        packed = packed_event(event, data, None)

        def queue() -> None:
            self.deliver(packed, list(self._clients))
            if self.remote is not None:
                self.remote.deliver(packed, None, None, None, None)

        self._hub.call(queue)

    def deliver(
        self,
        packed: bytes,
        sids: Sequence[str],
        number: int | None = None,
        acknowledged: Acknowledged | None = None,
        sent: Sent | None = None,
    ) -> None:
        """Queue a packet for the clients of this process among `sids`. On the hub thread."""
        packet, start = SharedPacket(packed), time.monotonic()
        for sid in sids:
            engine_sid = self._manager.eio_sid_from_sid(sid, NAMESPACE)
            if engine_sid is None or sid not in self._clients:
                continue  # disconnected, or a client of another process
            if acknowledged and number is not None:
                self._manager.expect(sid, number, acknowledged)
            self._engine.send_packet(engine_sid, packet)
        if sent is not None:  # runs after the callbacks that wake the writers
            gevent.get_hub().loop.run_callback(lambda: sent(time.monotonic() - start))

    def drop(self, sid: str) -> None:
        """End a client's session, so that it reconnects. Returns before the end. On the hub thread."""
        if engine_sid := self._manager.eio_sid_from_sid(sid, NAMESPACE):
            gevent.get_hub().loop.run_callback(self._drop, engine_sid)

    def drop_all(self) -> None:
        """End all sessions, so that their clients reconnect. On the hub thread."""
        for engine_sid in list(self._engine.sockets):
            self._drop(engine_sid)

    def limit_guests(self, guest_of: Callable[[Mapping[str, Any]], Hashable | None]) -> None:
        """Limit the sessions of each guest to `Limits.sessions_of_one`.

        `guest_of(environ)` returns the guest of a new session, or None if it is not limited.
        """
        self._guest_of = guest_of

    def _on_session(self, engine_sid: str, environ: dict[str, Any]) -> Any:
        """Begin a session. Above the limit, the oldest polling session is ended, since it may be abandoned."""
        sockets = self._engine.sockets
        if len(sockets) > self._limits.sessions:
            polling = (sid for sid, socket in sockets.items() if socket.queue.web_socket is None and sid != engine_sid)
            oldest = next(polling, None)
            if oldest is None:
                return False
            self._drop(oldest)
        if (guest := self._guest_of(environ)) is not None:
            self._add_session(guest, engine_sid)
        self._unconnected.append((time.monotonic() + self._limits.greet_seconds, engine_sid))
        if self._watcher is None:
            self._watcher = gevent.spawn(self._end_unconnected)
        return self._greet(engine_sid, environ)

    def _add_session(self, guest: Hashable, engine_sid: str) -> None:
        """Add a guest's session, and end its oldest ones above the limit, such as those left by a change of network."""
        sockets = self._engine.sockets
        if len(self._sessions) > self._limits.sessions:
            self._sessions = {
                one: open for one, sids in self._sessions.items() if (open := [s for s in sids if s in sockets])
            }
        sids = [*(sid for sid in self._sessions.get(guest, []) if sid in sockets), engine_sid]
        for oldest in sids[: -self._limits.sessions_of_one]:
            self._drop(oldest)
        self._sessions[guest] = sids[-self._limits.sessions_of_one :]

    def _group(self, environ: Mapping[str, Any]) -> set[Client] | None:
        """Return the clients of a session's guest; None if the session is not limited."""
        guest = self._guest_of(environ)
        if guest is None:
            return None
        if len(self._groups) > self._limits.sessions:
            self._groups = {one: group for one, group in self._groups.items() if group}
        return self._groups.setdefault(guest, set())

    def _end_unconnected(self) -> None:
        """End the sessions whose clients do not connect before the deadline."""
        while self._unconnected:
            at, engine_sid = self._unconnected[0]
            gevent.sleep(max(0.0, at - time.monotonic()))
            self._unconnected.popleft()
            if self._manager.sid_from_eio_sid(engine_sid, NAMESPACE) is None:
                self._drop(engine_sid)
        self._watcher = None

    def _on_message(self, engine_sid: str, data: Any) -> None:
        """Handle a message. A client whose message is not a Socket.IO packet is disconnected."""
        socket, start = self._engine.sockets.get(engine_sid), time.thread_time()
        try:
            self._dispatch(engine_sid, data)
        except Exception:
            gevent.get_hub().loop.run_callback(self._drop, engine_sid)
        if socket is not None:
            socket.queue.allowance.spend(time.thread_time() - start)

    def _drop(self, engine_sid: str) -> None:
        socket = self._engine.sockets.get(engine_sid)
        if socket is None:
            return
        socket.close(wait=False, abort=True, reason=self._engine.reason.SERVER_DISCONNECT)
        socket.queue.close()
        self._engine.sockets.pop(engine_sid, None)
        if socket.queue.web_socket is not None:
            socket.queue.web_socket.end()


class Slowest:
    """Callback that is called `count` times with a duration, and reports the longest one after the last call."""

    def __init__(self, count: int, report: Sent) -> None:
        self._left, self._report, self._longest = count, report, 0.0

    def __call__(self, seconds: float) -> None:
        self._left -= 1
        self._longest = max(self._longest, seconds)
        if not self._left:
            self._report(self._longest)


class _Manager(Manager):  # type: ignore[misc]
    """Manager that accepts one acknowledgement number for all recipients of a message."""

    def expect(self, sid: str, number: int, acknowledged: Callable[[str], None]) -> None:
        self.callbacks.setdefault(sid, {})[number] = acknowledged

    def trigger_callback(self, sid: str, id: Any, data: Any) -> None:
        """Handle an acknowledgement. Ignores an unexpected one."""
        acknowledged = self.callbacks.get(sid, {}).pop(id, None)
        if acknowledged is not None:
            acknowledged(sid)


def _sid() -> str:
    return str(flask.request.sid)  # type: ignore[attr-defined]
