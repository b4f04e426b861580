"""Endless or empty frames, messages and payloads delay only their sender."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import median

import msgspec
import pytest
import requests

from tests.attack.socket_server import BINARY, HANDSHAKE, PING, PONG, TEXT, AttackedServer, event, frame

SECONDS = 2.5  # of attack
PATIENCE = 2.0  # seconds that another client may wait for an answer


def listen(guest: socket.socket) -> None:
    """Read and discard the server's messages."""
    with contextlib.suppress(OSError):
        while guest.recv(65536):
            pass


def flood(port: int, before: bytes, again: bytes, until: float) -> int:
    """Open sockets, one after the other, that send `again` after `before`. Returns how many the server ended."""
    piece, ended = again * max(1, 65536 // len(again)), 0
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as guest:
            guest.sendall(HANDSHAKE)
            guest.recv(65536)
            reader = threading.Thread(target=listen, args=(guest,), daemon=True)
            reader.start()
            try:
                guest.sendall(before)
                while time.monotonic() < until:
                    with contextlib.suppress(TimeoutError):
                        guest.sendall(piece)
            except OSError:
                ended += 1
            with contextlib.suppress(OSError):
                guest.shutdown(socket.SHUT_RDWR)
            reader.join()
    return ended


def polled(port: int, payload: bytes, until: float) -> int:
    """Post a payload over and over in a session that polls. Returns how many requests were answered."""
    url, answers = f"http://127.0.0.1:{port}/socket.io/?EIO=4&transport=polling", 0
    with contextlib.suppress(requests.RequestException, ValueError), requests.Session() as session:
        while time.monotonic() < until:
            sid = json.loads(session.get(url, timeout=10).text[1:])["sid"]
            while time.monotonic() < until:
                answers += 1
                if session.post(f"{url}&sid={sid}", data=payload, timeout=10).status_code != 200:
                    break
    return answers


def pipelined(port: int, request: bytes, until: float) -> None:
    """Send a request over and over without waiting for its answers."""
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as guest:
            threading.Thread(target=listen, args=(guest,), daemon=True).start()
            while time.monotonic() < until:
                guest.sendall(request * 100)


def waits(url: str, until: float) -> list[float]:
    """Return the seconds that another client waits for each answer meanwhile."""
    found = []
    while time.monotonic() < until:
        began = time.monotonic()
        with contextlib.suppress(requests.Timeout):
            assert requests.get(f"{url}/api/health", timeout=15).json()["ok"]
        found.append(time.monotonic() - began)
        time.sleep(0.05)
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedServer]:
    found = AttackedServer(tmp_path_factory.mktemp("frames"))
    requests.get(f"{found.url}/api/health", timeout=20)
    yield found
    assert found.close() == ""


GREETING = frame(BINARY, msgspec.msgpack.encode({"type": 0, "nsp": "/"}))
MANY_THINGS = msgspec.msgpack.encode({"type": 3, "nsp": "/", "id": 1, "data": [[0] * 49_900]})
FLOODS = {
    "empty fragments": (frame(BINARY, b"", final=False), frame(0, b"", final=False)),
    "fragments of a byte": (frame(TEXT, b"4", final=False), frame(0, b"a", final=False)),
    "pings": (b"", frame(PING)),
    "pings with content": (b"", frame(PING, b"a" * 125)),
    "pongs": (b"", frame(PONG)),
    "pings in a message": (frame(TEXT, b"4", final=False), frame(PING)),
    "empty text": (b"", frame(TEXT)),
    "text of a byte": (b"", frame(TEXT, b"3")),
    "lists in a text": (b"", frame(TEXT, b"4" + b"[" * 60_000)),
    "binary of a byte": (b"", frame(BINARY, b"\xc1")),
    "events that nobody knows": (GREETING, frame(BINARY, event("no such event", {}))),
    "acknowledgements with many things": (GREETING, frame(BINARY, MANY_THINGS)),
}
# they take the time that they may, and need not be ended
SLOWED = ("events that nobody knows", "acknowledgements with many things")
ALL_AT_ONCE = "all at once"
PAYLOADS = {
    "packets": b"\x1e".join([b"3"] * 16),
    "separators": b"\x1e" * 1_000_000,
    "fields of a form": b"d=" + b"&a=1" * 250_000,
    "empty fields of a form": b"d=4" + b"&" * 1_000_000,
}


def attacked(server: AttackedServer, floods: Sequence[Callable[[float], object]]) -> list[object]:
    """Run all floods for a while, during which another client must not be delayed. Returns the floods' results."""
    until, memory = time.monotonic() + SECONDS, server.memory
    with ThreadPoolExecutor(len(floods)) as pool:
        guests = [pool.submit(one, until) for one in floods]
        found = waits(server.url, until)
        came_to = [guest.result() for guest in guests]
    print(f"waits {median(found):.3f} s, {max(found):.3f} s at most; {server.memory - memory} MiB; {came_to}")
    assert max(found) < PATIENCE
    assert server.memory - memory < 32
    return came_to


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*FLOODS, ALL_AT_ONCE])
def test_a_flood_of_frames_delays_no_other_client(server: AttackedServer, kind: str) -> None:
    """Each closed socket is reopened at once. Too many frames end the connection, whatever their content."""
    kinds = list(FLOODS) if kind == ALL_AT_ONCE else [kind]
    ended = attacked(server, [partial(flood, server.port, *FLOODS[one]) for one in kinds])
    assert all(ended) or kind in (*SLOWED, ALL_AT_ONCE)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*PAYLOADS, ALL_AT_ONCE])
def test_a_flood_of_payloads_delays_no_other_client(server: AttackedServer, kind: str) -> None:
    kinds = list(PAYLOADS) if kind == ALL_AT_ONCE else [kind]
    assert all(attacked(server, [partial(polled, server.port, PAYLOADS[one]) for one in kinds]))


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/socket.io/?EIO=4&transport=polling&sid=x", "/api/health"])
def test_a_flood_of_pipelined_requests_delays_no_other_client(server: AttackedServer, path: str) -> None:
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    attacked(server, [partial(pipelined, server.port, head)])
