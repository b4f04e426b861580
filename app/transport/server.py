"""Server on the hub thread, which limits the number of connections and closes them at shutdown."""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

import gevent
from flask import Flask
from gevent.event import Event
from gevent.pool import Pool
from gevent.pywsgi import WSGIServer
from gevent.socket import socket as GreenSocket

from app.ground.limits import Limits
from app.transport.clients import Clients
from app.transport.connection import HttpConnection, RequestObserver, WaitingHeads
from app.transport.hub import Hub, Workers
from app.transport.packets import Message
from app.transport.workers import Refuse, WorkerMiddleware

DESCRIPTORS = 256  # file descriptors reserved for purposes other than connections
FLUSH_SECONDS = 1.0  # at shutdown, for final messages to clients
WORKERS_SECONDS = 0.5  # at shutdown, for work in progress


class Transport:
    """Hub, clients and workers of one application."""

    def __init__(
        self,
        app: Flask,
        limits: Limits,
        max_message_bytes: int,
        refuse: Refuse,
        observers: Sequence[RequestObserver] = (),
        packets: type[Message] = Message,
    ) -> None:
        """Wrap the WSGI application of `app`.

        `refuse` returns the response to a refused body. `packets`: class that decodes messages.
        """
        self.limits = limits
        self._observers = observers
        self.hub = Hub()
        self._on_workers = WorkerMiddleware(app.wsgi_app, self.hub, limits, refuse)
        app.wsgi_app = self._on_workers  # type: ignore[method-assign]
        self.clients = Clients(app, self.hub, limits, max_message_bytes, packets)
        self._accepting = threading.Event()
        self._stop_accepting: Any = None
        self._stop: Any = None

    def start(self, app: Flask, bound: socket.socket) -> threading.Thread:
        """Serve `app` on the socket in a new thread. Returns when connections are accepted."""
        bound.listen(1024)
        thread = threading.Thread(target=self.hub.run, args=(lambda: self._serve(app, bound),), name="hub", daemon=True)
        thread.start()
        self._accepting.wait()
        return thread

    def refuse_more(self) -> None:
        """Stop accepting connections."""
        self.hub.call(lambda: self._stop_accepting())

    def stop(self) -> None:
        """End the remaining connections within about two seconds, after final messages to clients."""
        self.hub.call(lambda: self._stop.set())

    def _serve(self, app: Flask, bound: socket.socket) -> None:
        limits = self.limits
        events, requests = Workers(limits.event_threads), Workers(limits.http_threads)
        self.clients.begin(events)
        self._on_workers.begin(requests)
        connection = type(
            "Connection",
            (HttpConnection,),
            {"limits": limits, "heads": WaitingHeads(limits.waiting_heads), "observers": self._observers},
        )
        listening = GreenSocket(bound.family, bound.type, bound.proto, fileno=bound.detach())
        pool = Pool(min(limits.connections, _descriptors() - DESCRIPTORS))
        server = WSGIServer(
            listening,
            app,
            spawn=pool,
            handler_class=connection,
            log=None,
            error_log=None,
            environ={"SERVER_NAME": "kvtheater"},  # gevent would otherwise resolve a name over the network
        )
        server.start()
        self._stop, self._stop_accepting = Event(), server.close
        self._accepting.set()
        while not self._stop.wait(3600):  # the timer keeps alive a loop that no longer accepts connections
            pass
        end = time.monotonic() + FLUSH_SECONDS
        while self.clients.waiting_bytes and time.monotonic() < end:
            gevent.sleep(0.01)
        server.close()
        pool.kill(block=True, timeout=FLUSH_SECONDS)
        for workers in (events, requests):
            workers.end(WORKERS_SECONDS)


def _descriptors() -> int:
    """Raise the limit of open files and sockets to 8192 if that is allowed, and return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 8192 if hard == resource.RLIM_INFINITY else min(8192, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft if soft != resource.RLIM_INFINITY else wanted
