"""Closing a connection wakes the greenlets that wait on its socket, and the server continues."""

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import gevent
import gevent.event
import pytest
from gevent.pywsgi import WSGIServer

from app.ground.limits import Limits
from app.transport.connection import CONNECTION, HttpConnection, WaitingHeads

ENDED: list[str] = []


def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """Answer at once, and leave greenlets that send to, or read from, a silent client."""
    connection = environ[CONNECTION].socket

    def send() -> None:
        try:
            while True:
                connection.send(bytes(1 << 20))
        except OSError as error:
            ENDED.append(type(error).__name__)

    def listen() -> None:
        try:
            while True:
                connection.recv(1, socket.MSG_PEEK)
                gevent.sleep(0.001)
        except OSError as error:
            ENDED.append(type(error).__name__)

    gevent.spawn({"/send": send, "/listen": listen}[environ["PATH_INFO"]])
    gevent.sleep(0.05)
    start_response("200 OK", [("Content-Length", "0"), ("Connection", "close")])
    environ[CONNECTION].close_connection = True
    return []


@pytest.fixture
def port() -> Iterator[int]:
    """Start a server in its own event loop, on a thread."""
    ready, ports, stop = threading.Event(), list[int](), list[Any]()

    def serve() -> None:
        limits = Limits()
        kind = type("Kind", (HttpConnection,), {"limits": limits, "heads": WaitingHeads(9), "observers": ()})
        server = WSGIServer(("127.0.0.1", 0), application, handler_class=kind, log=None, error_log=None)
        server.start()
        ports.append(server.server_port)
        ended = gevent.get_hub().loop.async_()
        stop.append(ended.send)
        waiting = gevent.event.Event()
        ended.start(waiting.set)
        ready.set()
        waiting.wait()
        server.stop()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert ready.wait(10)
    yield ports[0]
    stop[0]()
    thread.join(10)


@pytest.mark.parametrize("path", ["/send", "/listen"])
def test_closing_a_connection_wakes_its_waiting_greenlets(port: int, path: str) -> None:
    ENDED.clear()
    for count in range(1, 6):
        client = socket.create_connection(("127.0.0.1", port), timeout=10)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        end = time.monotonic() + 10
        while len(ENDED) < count and time.monotonic() < end:
            time.sleep(0.01)
        client.close()
        assert len(ENDED) == count
