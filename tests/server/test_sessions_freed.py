"""An ended session is freed at once: no timer and no reference cycle keeps it."""

import gc
import socket
import time

import pytest
from engineio.socket import Socket

from app.transport.connection import HttpConnection
from tests.attack.socket_server import HANDSHAKE, TEXT, frame
from tests.server.conftest import Server

COUNT = 20


def alive() -> int:
    """Return the sessions and connections that are still in memory."""
    return sum(type(found) is Socket or issubclass(type(found), HttpConnection) for found in gc.get_objects())


def test_a_session_that_has_ended_is_freed_without_the_collector(server: Server) -> None:
    gc.collect()
    before = alive()
    gc.disable()
    try:
        for _ in range(COUNT):
            with socket.create_connection(("127.0.0.1", server.port), timeout=5) as guest:
                guest.sendall(HANDSHAKE)
                assert b"101" in guest.recv(4096)
        until = time.monotonic() + 10
        while alive() > before + 1 and time.monotonic() < until:
            time.sleep(0.1)
        assert alive() <= before + 1, "the hub's loop may name the last one"
    finally:
        gc.enable()


def test_a_session_is_pinged_again_after_each_answer(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server.transport.clients._engine, "ping_interval", 0.1)
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as guest, guest.makefile("rb") as came:
        guest.sendall(HANDSHAKE)
        while came.readline() != b"\r\n":
            pass
        for expected in (b"0", b"2", b"2", b"2"):  # Engine.IO: open, ping
            head = came.read(2)
            length = head[1] if head[1] < 126 else int.from_bytes(came.read(2), "big")
            assert came.read(length)[:1] == expected
            guest.sendall(frame(TEXT, b"3"))
