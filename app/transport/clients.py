"""The Socket.IO server: events to workers, messages to clients from any thread, each client within its bounds."""

from __future__ import annotations

import base64
import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

import flask
import gevent
import msgpack
from engineio.packet import MESSAGE
from engineio.packet import Packet as EnginePacket
from flask import Flask
from flask_socketio import SocketIO
from socketio import Manager
from socketio.msgpack_packet import MsgPackPacket
from socketio.packet import EVENT

from app.transport.hub import Hub, Workers
from app.transport.limits import Limits
from app.transport.outbox import Ledger, Outbox
from app.transport.websocket import WebSocket

_silent = logging.getLogger(f"{__name__}.protocol")
_silent.disabled = True
NAMESPACE = "/"
MAX_THINGS = 50_000  # lists, maps and their entries in one message; a focus on everything has a few thousand
PING_TIMEOUT = 60  # seconds; on a slow line a ping waits behind a batch

Ack = Mapping[str, Any]


def _nothing() -> None: ...


class Answer(NamedTuple):
    """What a handler may give instead of an acknowledgement: one that comes later, or that something follows."""

    ack: Ack | Future[Ack]
    then: Callable[[], None] = _nothing  # called when the acknowledgement is on its way, before anything later is sent


class Message(MsgPackPacket):  # type: ignore[misc]
    """A Socket.IO packet. An event's last argument is the size of its message in bytes, for the books."""

    def decode(self, encoded_packet: bytes) -> None:
        """Raises ValueError or another error for what is no packet, or has more entries than any event."""
        left = MAX_THINGS

        def counted(things: list[Any]) -> None:
            nonlocal left
            left -= 1 + len(things)
            if left < 0:
                raise ValueError("too many things")

        def as_list(things: list[Any]) -> list[Any]:
            counted(things)
            return things

        def as_map(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
            counted(pairs)
            return dict(pairs)

        # An empty list is one byte of a message and sixty of memory.
        bounds = {"max_array_len": MAX_THINGS, "max_map_len": MAX_THINGS}
        found = msgpack.unpackb(encoded_packet, list_hook=as_list, object_pairs_hook=as_map, **bounds)
        self.packet_type, self.namespace = found["type"], found["nsp"]
        self.data, self.id = found.get("data"), found.get("id")
        if self.packet_type == EVENT:
            if not isinstance(self.data, list) or not self.data:
                raise ValueError("an event without a name")
            self.data.append(len(encoded_packet))


class _Shared(EnginePacket):  # type: ignore[misc]
    """A packet for clients of both transports. The library's packet would keep the first encoding for all."""

    def encode(self, b64: bool = False) -> str | bytes:
        return "b" + base64.b64encode(self.data).decode() if b64 else self.data


class Client:
    """What one connected client has under way. On the hub thread only."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.events = 0
        self.bytes = 0
        self.busy_answers = 0  # since an event was last taken


class Clients:
    """All connected clients, and how to reach them."""

    def __init__(self, app: Flask, hub: Hub, limits: Limits, max_message_bytes: int) -> None:
        """Puts itself in front of `app`."""
        self._hub, self._limits = hub, limits
        self._ids = itertools.count(1)
        self._clients: dict[str, Client] = {}  # by Socket.IO id
        self._events = self._bytes = 0  # under way, of all
        self._workers: Workers | None = None
        self._gone: Callable[[str], None] = lambda _: None
        self._whose: Callable[[Mapping[str, Any]], Hashable | None] = lambda _: None
        self._to_greet: deque[tuple[float, str]] = deque()  # sessions, and until when each is a client's
        self._watcher: gevent.Greenlet | None = None
        self._sessions: dict[Hashable, list[str]] = {}  # of guests who are told apart, the latest last
        self._manager = _Manager()
        self._socketio = SocketIO(
            app,
            async_mode="gevent",
            serializer=Message,
            client_manager=self._manager,
            manage_session=False,
            cors_allowed_origins=[],  # the guard has looked at the origin already
            max_http_buffer_size=max_message_bytes,
            http_compression=False,  # a batch would keep the hub thread for longer than all viewers' sockets do
            ping_timeout=PING_TIMEOUT,
            logger=_silent,  # mistakes of clients are no news for the terminal
            engineio_logger=_silent,
        )
        server = self._socketio.server
        self._engine = server.eio
        self._ledger = Ledger(limits)
        self._engine._async = {
            **self._engine._async,
            "websocket": WebSocket,
            "queue": partial(Outbox, self._ledger),
        }
        self._dispatch, self._greet = server._handle_eio_message, server._handle_eio_connect
        self._engine.on("message", self._take)
        self._engine.on("connect", self._came)

    def begin(self, workers: Workers) -> None:
        """On the hub thread, before the first client."""
        self._workers = workers

    @property
    def waiting_bytes(self) -> int:
        """That clients have not taken yet."""
        return self._ledger.total

    def __len__(self) -> int:
        return len(self._clients)

    def on(
        self, event: str, handle: Callable[[str, tuple[Any, ...]], Ack | Answer], busy: Callable[[str], Ack]
    ) -> None:
        """`handle(sid, arguments)` is called on a worker; `busy(why)` is what a client with too much under way gets."""

        def taken(*arguments: Any) -> Ack | None:
            sid = _sid()
            name = () if event != "*" else arguments[:1]
            *rest, size = arguments[len(name) :]
            client = self._clients.get(sid)
            if client is None or self._workers is None:
                return None
            if why := self._too_much(client, size):
                client.busy_answers += 1
                if client.busy_answers > self._limits.busy_answers:
                    client.outbox.give_up()
                return busy(why)
            client.busy_answers = 0
            self._count(client, 1, size)
            try:
                found = self._workers.do(handle, sid, (*name, *rest))
                answer = found if isinstance(found, Answer) else Answer(found)
                ack = self._hub.wait_for(answer.ack) if isinstance(answer.ack, Future) else answer.ack
                # The acknowledgement is queued before the greenlet that is started here can run.
                gevent.get_hub().loop.run_callback(answer.then)
                return ack
            finally:
                self._count(client, -1, -size)
                if sid not in self._clients:
                    self._gone(sid)  # it went away while it was, say, made a viewer

        self._socketio.on_event(event, taken)

    def on_come_and_gone(self, come: Callable[[str, Mapping[str, Any]], None], gone: Callable[[str], None]) -> None:
        """`come(sid, environ)` is called on the hub thread when there is a client more, with the environment of the
        request that it came with; `gone(sid)` when it is gone, and again after what it still had under way.
        """

        def came(*_: Any) -> None:
            sid = _sid()
            engine_sid = self._manager.eio_sid_from_sid(sid, NAMESPACE)
            socket = self._engine.sockets[engine_sid]
            client = self._clients[sid] = Client(socket.queue)
            client.outbox.on_give_up = lambda: gevent.get_hub().loop.run_callback(self._drop, engine_sid)
            come(sid, flask.request.environ)

        def went(*_: Any) -> None:
            sid = _sid()
            if client := self._clients.pop(sid, None):
                client.outbox.let_go()
            gone(sid)

        self._gone = gone
        self._socketio.on_event("connect", came)
        self._socketio.on_event("disconnect", went)

    def emit(
        self,
        event: str,
        data: Mapping[str, Any],
        sids: Sequence[str],
        acknowledged: Callable[[str], None] | None = None,
        sent: Callable[[float], None] | None = None,
    ) -> None:
        """Queue an event for clients, from any thread. It is packed once, and all of them are sent the same bytes.

        With `acknowledged` each of them acknowledges it: then that is called with its id. `sent` is called with the
        seconds until it was written to all who can be written to. Both are called on the hub thread.
        """
        number = next(self._ids) if acknowledged else None
        packed = Message(EVENT, namespace=NAMESPACE, data=[event, data], id=number).encode()
        packet = _Shared(MESSAGE, packed)
        chosen = list(sids)

        def queue() -> None:
            began = time.monotonic()
            for sid in chosen:
                engine_sid = self._manager.eio_sid_from_sid(sid, NAMESPACE)
                if engine_sid is None or sid not in self._clients:
                    continue  # gone meanwhile
                if acknowledged and number is not None:
                    self._manager.expect(sid, number, acknowledged)
                self._engine.send_packet(engine_sid, packet)
            if sent is not None:  # called after the callbacks that wake the writers
                gevent.get_hub().loop.run_callback(lambda: sent(time.monotonic() - began))

        self._hub.call(queue)

    def emit_to_all(self, event: str, data: Mapping[str, Any]) -> None:
        """Queue an event for every client that is there when its turn comes, from any thread."""
        self._hub.call(lambda: self.emit(event, data, list(self._clients)))

    def tell_apart(self, whose: Callable[[Mapping[str, Any]], Hashable | None]) -> None:
        """`whose(environ)`: who begins a session, of whom `Limits.sessions_of_one` are let be; None: anybody."""
        self._whose = whose

    def _too_much(self, client: Client, size: int) -> str | None:
        """Why an event cannot be taken now."""
        limits = self._limits
        if client.outbox.size > limits.busy_bytes:
            return "answers are waiting to be read by this client; ask again when it has read them"
        if client.events >= limits.events or client.bytes + size > limits.event_bytes:
            return f"{client.events} events of this client are under way; wait for their answers"
        if self._events >= limits.all_events or self._bytes + size > limits.all_event_bytes:
            return "the server has too much under way; try again in a moment"
        return None

    def _count(self, client: Client, events: int, size: int) -> None:
        client.events += events
        client.bytes += size
        self._events += events
        self._bytes += size

    def _came(self, engine_sid: str, environ: dict[str, Any]) -> Any:
        """A session begins. One that polls needs no connection to stay: beyond the bound the oldest of these goes."""
        sockets = self._engine.sockets
        if len(sockets) > self._limits.sessions:
            polling = (sid for sid, socket in sockets.items() if socket.queue.web_socket is None and sid != engine_sid)
            oldest = next(polling, None)
            if oldest is None:
                return False
            self._drop(oldest)
        if (who := self._whose(environ)) is not None:
            self._make_way(who, engine_sid)
        self._to_greet.append((time.monotonic() + self._limits.greet_seconds, engine_sid))
        if self._watcher is None:
            self._watcher = gevent.spawn(self._end_silent)
        return self._greet(engine_sid, environ)

    def _make_way(self, who: Hashable, engine_sid: str) -> None:
        """The latest sessions are those of a phone that has changed its network again and again: the oldest go."""
        sockets = self._engine.sockets
        if len(self._sessions) > self._limits.sessions:
            self._sessions = {
                one: left for one, sids in self._sessions.items() if (left := [s for s in sids if s in sockets])
            }
        sids = [*(sid for sid in self._sessions.get(who, []) if sid in sockets), engine_sid]
        for oldest in sids[: -self._limits.sessions_of_one]:
            self._drop(oldest)
        self._sessions[who] = sids[-self._limits.sessions_of_one :]

    def _end_silent(self) -> None:
        """End the sessions that do not become a client's in their time: they hold places for nothing."""
        while self._to_greet:
            at, engine_sid = self._to_greet[0]
            gevent.sleep(max(0.0, at - time.monotonic()))
            self._to_greet.popleft()
            if self._manager.sid_from_eio_sid(engine_sid, NAMESPACE) is None:
                self._drop(engine_sid)
        self._watcher = None

    def _take(self, engine_sid: str, data: Any) -> None:
        """A message. A client that sends anything but a Socket.IO packet is disconnected."""
        try:
            self._dispatch(engine_sid, data)
        except Exception:
            gevent.get_hub().loop.run_callback(self._drop, engine_sid)

    def _drop(self, engine_sid: str) -> None:
        socket = self._engine.sockets.get(engine_sid)
        if socket is None:
            return
        socket.close(wait=False, abort=True, reason=self._engine.reason.SERVER_DISCONNECT)
        socket.queue.let_go()
        self._engine.sockets.pop(engine_sid, None)
        if socket.queue.web_socket is not None:
            socket.queue.web_socket.end()


class _Manager(Manager):  # type: ignore[misc]
    """Acknowledgements under a number that is the same for all whom a message goes to."""

    def expect(self, sid: str, number: int, acknowledged: Callable[[str], None]) -> None:
        self.callbacks.setdefault(sid, {})[number] = acknowledged

    def trigger_callback(self, sid: str, id: Any, data: Any) -> None:
        """An acknowledgement came; one that was not asked for is ignored."""
        acknowledged = self.callbacks.get(sid, {}).pop(id, None)
        if acknowledged is not None:
            acknowledged(sid)


def _sid() -> str:
    return str(flask.request.sid)  # type: ignore[attr-defined]
