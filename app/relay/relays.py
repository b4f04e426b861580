"""Server's end of the links to web workers. The server handles the workers' clients like its own."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Collection

import gevent

from app import __version__
from app.ground.callers import ADDRESS, OWNER, PASS, Credentials, Person
from app.relay import wire
from app.relay.bus import Bus, server_channel, without_password, worker_channel
from app.transport.clients import Acknowledged, Clients, Sent, Slowest
from app.transport.hub import Hub

HEARTBEAT_SECONDS = 1.0  # without messages, after which an empty frame is sent
SILENCE_SECONDS = 10.0  # without a frame, after which the link counts as broken
MAX_WORKERS = 64
FLUSH_SECONDS = 1.0

logger = logging.getLogger(__name__)


class Relays:
    """Links to all web workers. On the hub thread, except `start` and `stop`."""

    def __init__(
        self,
        url: str,
        hub: Hub,
        clients: Clients,
        identify: Callable[[Credentials], Person],
    ) -> None:
        """Set up the relay. `identify` returns the person with these credentials.

        Raises:
            BusError: no message queue can be used at `url`.
        """
        self._url, self._hub, self._clients, self._identify = url, hub, clients, identify
        self._address = ""  # HTTP address of this process
        self._relays: dict[str, Relay] = {}  # by the worker's name
        self._relay_of: dict[str, tuple[Relay, int]] = {}  # by client
        self._report_numbers = itertools.count(1)
        self._was_lost = self._is_stopped = False
        self._bus = Bus(
            url,
            server_channel(url),
            on_message=lambda data: hub.call(lambda: self._receive(data)),
            on_subscribed=lambda: hub.call(self._on_subscribed),
            on_lost=lambda reason: hub.call(lambda: self._on_lost(reason)),
            on_undelivered=lambda channel: hub.call(lambda: self._on_undelivered(channel)),
        )
        clients.remote = self

    def __len__(self) -> int:
        """Return the number of workers."""
        return len(self._relays)

    def start(self, address: str) -> None:
        """Accept workers. `address`: HTTP address of this process, to which workers forward requests."""
        self._address = address
        self._bus.start()
        self._hub.call(lambda: gevent.spawn(self._send_heartbeats) and None)

    def stop(self) -> None:
        """Send all queued messages, and disconnect the workers."""
        self._hub.run_greenlet(self._end_all)
        self._bus.close(FLUSH_SECONDS)

    def has(self, sid: str) -> bool:
        return sid in self._relay_of

    def deliver(
        self,
        packed: bytes,
        sids: Collection[str] | None,
        number: int | None,
        acknowledged: Acknowledged | None,
        sent: Sent | None,
    ) -> None:
        """Send one message to each worker that has recipients."""
        recipients: dict[Relay, list[int] | None] = {}
        if sids is None:
            recipients = dict.fromkeys(self._relays.values())
        for sid in sids or ():
            if found := self._relay_of.get(sid):
                relay, client = found
                numbers = recipients.setdefault(relay, [])
                assert numbers is not None
                numbers.append(client)
        slowest = Slowest(len(recipients), sent) if sent and recipients else None
        if sent and not recipients:
            sent(0.0)
        for relay, clients in recipients.items():
            if number is not None and acknowledged is not None:
                for client in clients or ():
                    relay.clients[client][number] = acknowledged
            report = None
            if slowest is not None:
                report = next(self._report_numbers)
                relay.reports[report] = slowest
            self._queue(relay, wire.Delivery(packed, clients, number, report))

    def _receive(self, data: bytes) -> None:
        frame = wire.read_up(data)
        if frame is None or self._is_stopped:
            return
        relay = self._relays.get(frame.worker)
        if frame.index == 0 and frame.messages and isinstance(frame.messages[0], wire.Hello):
            self._begin(frame.worker, frame.link, frame.messages[0])
            relay = self._relays.get(frame.worker)
            if relay is None:
                return
        elif relay is None or relay.link != frame.link:
            if relay is None or frame.link > relay.link:  # linked before this process started
                self._publish(frame.worker, frame.link, 0, [wire.Bye()])
            return
        if frame.index != relay.next_in:
            self._end(relay)
            return
        relay.next_in += 1
        relay.received_at = time.monotonic()
        for message in frame.messages:
            self._handle(relay, message)

    def _begin(self, worker: str, link: int, hello: wire.Hello) -> None:
        if previous := self._relays.get(worker):
            self._forget(previous)
        reason = ""
        if hello.version != __version__:
            reason = f"the server is KV Theater {__version__}, this worker {hello.version}; install the same version"
        elif len(self._relays) >= MAX_WORKERS:
            reason = f"this server already has {MAX_WORKERS} workers, the maximum"
        if reason:
            self._publish(worker, link, 0, [wire.Refused(reason)])
            return
        relay = self._relays[worker] = Relay(worker, link)
        self._queue(relay, wire.Welcome(self._address))

    def _end(self, relay: Relay) -> None:
        """End a broken link. Its worker restarts it."""
        self._queue(relay, wire.Bye())
        self._flush(relay)
        self._forget(relay)

    def _end_all(self) -> None:
        self._is_stopped = True
        for relay in list(self._relays.values()):
            self._end(relay)

    def _forget(self, relay: Relay) -> None:
        """Remove a worker and its clients."""
        if self._relays.get(relay.worker) is relay:
            del self._relays[relay.worker]
        for client in list(relay.clients):
            self._remove_client(relay, client)
        reports, relay.reports = relay.reports, {}
        for report in reports.values():
            report(0.0)

    def _on_subscribed(self) -> None:
        if self._was_lost:
            logger.warning(
                "the message queue at %s is reachable again; workers reconnect automatically",
                without_password(self._url),
            )
        self._was_lost = False

    def _on_lost(self, reason: str) -> None:
        if not self._is_stopped and not self._was_lost:
            logger.warning(
                "the message queue at %s is unreachable (%s); clients of web workers wait for it",
                without_password(self._url),
                reason,
            )
        self._was_lost = True
        for relay in list(self._relays.values()):
            self._forget(relay)

    def _on_undelivered(self, channel: str) -> None:
        """Forget the worker of a message that had no subscriber, since the worker has ended."""
        for relay in list(self._relays.values()):
            if worker_channel(self._url, relay.worker) == channel:
                self._forget(relay)

    def _send_heartbeats(self) -> None:
        while not self._is_stopped:
            now = time.monotonic()
            for relay in list(self._relays.values()):
                if now - relay.received_at > SILENCE_SECONDS:
                    self._end(relay)
                elif now - relay.sent_at > HEARTBEAT_SECONDS:
                    self._flush(relay)
            gevent.sleep(HEARTBEAT_SECONDS / 2)

    def _handle(self, relay: Relay, message: wire.Up) -> None:
        match message:
            case wire.EventPacket(client, number, packet):
                gevent.spawn(self._handle_event, relay, client, number, packet)
            case wire.Acknowledgement(number, clients):
                for client in clients:
                    acknowledged = relay.clients.get(client, {}).pop(number, None)
                    if acknowledged is not None:
                        acknowledged(relay.sid(client))
            case wire.WriteReport(number, seconds):
                if report := relay.reports.pop(number, None):
                    report(seconds)
            case wire.Identify(number, credentials):
                person = self._identify(credentials)
                seat = person.seat
                self._queue(relay, wire.Identity(number, person.is_owner, seat and (seat.class_id, seat.seat)))
            case wire.ClientConnected(client, credentials, address):
                relay.clients[client] = {}
                sid = relay.sid(client)
                self._relay_of[sid] = relay, client
                person = self._identify(credentials)
                self._clients.on_connect(sid, {OWNER: person.is_owner, PASS: person.seat, ADDRESS: address})
            case wire.ClientDisconnected(client):
                self._remove_client(relay, client)

    def _remove_client(self, relay: Relay, client: int) -> None:
        relay.clients.pop(client, None)
        sid = relay.sid(client)
        if self._relay_of.pop(sid, None):
            self._clients.on_disconnect(sid)

    def _handle_event(self, relay: Relay, client: int, number: int, packet: bytes) -> None:
        """Handle an event. Runs on a separate greenlet."""
        sid = relay.sid(client)
        try:
            answer, then = self._clients.handle_remote(sid, packet)
        except Exception:  # the worker has validated the packet, so this is a bug
            logger.exception("cannot handle an event of a web worker")
            answer, then = None, lambda: None
        self._queue(relay, wire.EventHandled(client, number, answer))
        then()
        if sid not in self._relay_of:
            self._clients.on_disconnect(sid)  # the client disconnected meanwhile, for example while it became a viewer

    def _queue(self, relay: Relay, message: wire.Down) -> None:
        """Queue a message. All messages of one iteration of the event loop are sent in one frame."""
        relay.waiting.append(message)
        if len(relay.waiting) == 1:
            gevent.get_hub().loop.run_callback(self._flush, relay)

    def _flush(self, relay: Relay) -> None:
        """Send the queued messages, or an empty frame as heartbeat."""
        waiting, relay.waiting = relay.waiting, []
        if self._relays.get(relay.worker) is relay:
            self._publish(relay.worker, relay.link, relay.next_out, waiting)
            relay.next_out += 1
            relay.sent_at = time.monotonic()

    def _publish(self, worker: str, link: int, index: int, messages: list[wire.Down]) -> None:
        self._bus.send(worker_channel(self._url, worker), wire.encode(wire.DownFrame(link, index, messages)))


class Relay:
    """Link to a web worker."""

    def __init__(self, worker: str, link: int) -> None:
        self.worker, self.link = worker, link
        self.clients: dict[int, dict[int, Acknowledged]] = {}  # client -> packet number -> callback
        self.reports: dict[int, Sent] = {}
        self.next_in = self.next_out = 0
        self.received_at = self.sent_at = time.monotonic()
        self.waiting: list[wire.Down] = []

    def sid(self, client: int) -> str:
        """Return this process's id of a worker's client. Ids of local clients contain no colon."""
        return f"{self.worker}:{self.link}:{client}"
