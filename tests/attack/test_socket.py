"""A guest's messages, requests and unread answers are bounded, and other clients notice nothing."""

import contextlib
import http.client
import json
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests
import websocket

from tests.attack.socket_server import AttackedServer, event
from tests.server.conftest import Client

MIB = 1024 * 1024
ADDRESS = "/socket.io/?EIO=4&transport=websocket"
HANDSHAKE = (
    f"GET {ADDRESS} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
).encode()
CONTINUATION, TEXT, BINARY = 0, 1, 2


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[Callable[..., AttackedServer]]:
    """Make a server. At the end it must have written nothing to its terminal."""
    servers: list[AttackedServer] = []

    def make(**limits: Any) -> AttackedServer:
        servers.append(AttackedServer(tmp_path, **limits))
        return servers[-1]

    yield make
    assert [server.close() for server in servers] == [""] * len(servers)


def is_well(server: AttackedServer) -> None:
    """Check that another client is served: files, endpoints and events."""
    assert requests.get(f"{server.url}/api/health", timeout=10).json()["ok"]
    other = Client(server.url)
    assert other.do("tokenize", text="a")["token_ids"] == [97]
    other.io.disconnect()


def ended(guest: socket.socket) -> bool:
    """Whether the server ends the connection before the socket's timeout, after at most a short reason."""
    with contextlib.suppress(ConnectionResetError):
        while guest.recv(1000):
            pass
    return True


def raw(server: AttackedServer) -> websocket.WebSocket:
    """Open a web socket that has received the greetings of Socket.IO and the `model` event, and reads nothing more."""
    found = websocket.create_connection(f"ws://127.0.0.1:{server.port}{ADDRESS}", timeout=20)
    found.recv()
    found.send_binary(msgspec.msgpack.encode({"type": 0, "nsp": "/"}))
    assert {received_packet(found)["type"] for _ in range(2)} == {0, 2}
    return found


def received_packet(guest: websocket.WebSocket) -> dict[str, Any]:
    """Return the next packet."""
    data = guest.recv()
    assert isinstance(data, bytes), data
    found: dict[str, Any] = msgspec.msgpack.decode(data)
    return found


def test_fragments_end_at_the_bound_of_a_message(attacked: Callable[..., AttackedServer]) -> None:
    """The message has 64 MiB in fragments of 64 KiB; after 1 MiB the connection ends with 1009, too big."""
    server = attacked()
    is_well(server)
    guest, before = raw(server), server.memory
    piece, kind = bytes(64 * 1024), BINARY
    with contextlib.suppress(OSError, websocket.WebSocketException):
        for _ in range(1024):
            guest.send_frame(websocket.ABNF(fin=0, opcode=kind, data=piece))
            kind = CONTINUATION
        pytest.fail("64 MiB were taken")
    assert server.memory - before < 16
    is_well(server)


def test_compression_is_not_negotiated_and_compressed_frames_are_refused(
    attacked: Callable[..., AttackedServer],
) -> None:
    """A compressed frame (64 KiB for 64 MiB of zeros) is a protocol error, since compression was not negotiated."""
    server = attacked()
    is_well(server)
    before = server.memory
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = packed.compress(bytes(64 * MIB)) + packed.flush(zlib.Z_SYNC_FLUSH)
    assert 60_000 < len(bomb[:-4]) < 70_000
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as guest:
        guest.sendall(HANDSHAKE)
        head = guest.recv(65536)
        assert head.startswith(b"HTTP/1.1 101") and b"xtensions" not in head
        size = len(bomb) - 4
        guest.sendall(bytes((0xC2, 0xFF)) + size.to_bytes(8, "big") + bytes(4) + bomb[:-4])  # FIN, RSV1, masked with 0
        with contextlib.suppress(ConnectionResetError):
            while guest.recv(65536):
                pass
    assert server.memory - before < 16
    is_well(server)


def test_a_message_of_a_million_empty_lists_is_not_unpacked(attacked: Callable[..., AttackedServer]) -> None:
    """The messages are 1,000,000 bytes that would be 56 MB of lists, and a map of 200,000 entries."""
    server = attacked()
    is_well(server)
    before = server.memory
    lists = b"\xdd" + (1_000_000).to_bytes(4, "big") + b"\x90" * 1_000_000
    many = b"\xdf" + (200_000).to_bytes(4, "big") + b"".join(b"\xa3%03x\x00" % (i % 4096) for i in range(200_000))
    nested = b"\x91" * 500 + b"\x90"
    for argument in (lists, many, b"\xdc\x00\x02" + lists[:-1] + nested):
        guest = raw(server)
        guest.send_binary(event("create", {})[:-1] + argument)  # in place of the empty map, which is the last byte
        with contextlib.suppress(websocket.WebSocketException, ConnectionError):
            assert not guest.recv()
    assert server.memory - before < 16
    is_well(server)


def test_sessions_that_poll_make_room_for_others(attacked: Callable[..., AttackedServer]) -> None:
    """Only 10 of 40 abandoned sessions remain: the oldest is unknown, the newest is not."""
    server = attacked(sessions=10)
    address = f"{server.url}/socket.io/?EIO=4&transport=polling"
    sids = [json.loads(requests.get(address, timeout=10).text[1:])["sid"] for _ in range(40)]
    assert requests.post(f"{address}&sid={sids[0]}", data="3", timeout=10).status_code == 400
    assert requests.post(f"{address}&sid={sids[-1]}", data="3", timeout=10).status_code == 200
    is_well(server)


def test_a_client_that_does_not_read_is_answered_busy_and_then_disconnected(
    attacked: Callable[..., AttackedServer],
) -> None:
    """Each of 400 answers has over 1 MiB: beyond 4 MiB unread the reply is `busy`; after 256 of these the client is
    disconnected.
    """
    server = attacked()
    owner = Client(server.url)
    theater = owner.do("create", captures=False)["theater"]
    for _ in range(4):
        owner.do("submit", theater=theater, prompts=[{"text": "x" * 1000}] * 64)
    size = sum(map(len, owner.do("read", theater=theater, **{"from": 0, "to": 4})["records"]))
    assert size > MIB
    before, read_packet = server.memory, event("read", {"theater": theater, "from": 0, "to": 4}, 7)
    guest, codes = raw(server), list[str | None]()
    for _ in range(200):
        guest.send_binary(read_packet)
        time.sleep(0.005)  # so that answers are there to be left unread
    while len(codes) < 200:
        packet = received_packet(guest)
        if packet["type"] == 3:
            codes.append(packet["data"][0].get("error", {}).get("code"))
    assert 4 <= codes.count(None) < 50 and set(codes) == {None, "busy"}
    guest.send_binary(read_packet)
    assert received_packet(guest)["data"][0]["ok"], "who reads is served again"
    with pytest.raises(OSError):
        for _ in range(400):
            guest.send_binary(read_packet)
            time.sleep(0.005)
    assert server.memory - before < 64, "of 600 MiB that were asked for"
    is_well(server)
    owner.io.disconnect()


def test_a_silent_client_stays_and_one_that_never_reads_is_disconnected(
    attacked: Callable[..., AttackedServer],
) -> None:
    """Data must be accepted within 0.5 s: 1.5 s of silence are allowed, 1.5 s of unread answers end the connection."""
    server = attacked(stall_seconds=0.5)
    owner = Client(server.url)
    theater = owner.do("create", captures=False)["theater"]
    for _ in range(4):
        owner.do("submit", theater=theater, prompts=[{"text": "x" * 1000}] * 64)
    guest = raw(server)
    for number in range(16):  # 16 MiB, of which the system takes a few
        guest.send_binary(event("read", {"theater": theater, "from": 0, "to": 4}, number))
    time.sleep(1.5)
    assert owner.do("tokenize", text="a")["token_ids"] == [97]
    answers = 0
    with contextlib.suppress(websocket.WebSocketException, OSError):
        while guest.recv():
            answers += 1
    assert answers < 16
    owner.io.disconnect()


def test_events_without_end_make_no_threads(attacked: Callable[..., AttackedServer]) -> None:
    """A client sends 4,000 events that wait for slow steps: 16 at a time are in progress, and no thread waits
    for them.
    """
    server = attacked(busy_answers=10**6, step_seconds=0.05)
    owner = Client(server.url)
    theater = owner.do("create")["theater"]
    owner.do("submit", theater=theater, prompts=[{"text": "a"}], sampling={"max_tokens": 900})
    guest, most = raw(server), 0
    guest.settimeout(0.001)
    for number in range(4_000):
        guest.send_binary(event("step", {"theater": theater, "count": 1}, number))
        if number % 100 == 0:
            most = max(most, server.threads)
            with contextlib.suppress(websocket.WebSocketTimeoutException):
                while True:
                    guest.recv()
    assert most < 64
    is_well(server)
    guest.close()
    owner.io.disconnect()


def test_unfinished_heads_delay_no_other_request(attacked: Callable[..., AttackedServer]) -> None:
    """Only 20 connections may wait with half a head: of 60, 40 are closed at once, the others after 2 seconds."""
    server = attacked(waiting_heads=20, head_seconds=2.0)
    is_well(server)
    threads = server.threads
    with contextlib.ExitStack() as stack:
        guests = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(60)]
        for guest in guests:
            guest.settimeout(10)
            guest.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            time.sleep(0.002)
        for guest in guests[:40]:
            assert ended(guest)
        assert server.threads <= threads + 4
        is_well(server)
        for guest in guests[40:]:
            assert ended(guest)


def test_a_head_over_its_bound_is_refused(attacked: Callable[..., AttackedServer]) -> None:
    server = attacked()
    for _ in range(3):
        guest = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        with contextlib.suppress(ConnectionError):  # what is sent after the refusal
            guest.request("GET", "/", headers={f"X-{i}": "x" * 7000 for i in range(20)})
            assert guest.getresponse().status == 431
    is_well(server)


def test_bodies_that_never_come_hold_no_thread(attacked: Callable[..., AttackedServer]) -> None:
    """Requests are three times as many as threads, with a body that fits memory and one that does not."""
    server = attacked(http_threads=6)
    is_well(server)
    threads = server.threads
    heads = [
        b"POST /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9000\r\n\r\n",
        b"PATCH /api/recordings/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9000\r\n\r\n",
        b"POST /api/recordings HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9000000\r\n\r\n",
    ]
    with contextlib.ExitStack() as stack:
        for i in range(36):
            guest = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            guest.sendall(heads[i % 3])
        time.sleep(0.3)
        assert server.threads <= threads + 8, "six for requests, two of a theater"
        is_well(server)


def test_connections_over_the_limit_wait(attacked: Callable[..., AttackedServer]) -> None:
    server = attacked(connections=3)
    guests = [websocket.create_connection(f"ws://127.0.0.1:{server.port}{ADDRESS}", timeout=20) for _ in range(3)]
    waiting = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    waiting.request("GET", "/api/health")
    assert waiting.sock is not None
    waiting.sock.settimeout(0.5)
    with pytest.raises(TimeoutError):
        waiting.sock.recv(1, socket.MSG_PEEK)
    guests[0].close()
    waiting.sock.settimeout(20)
    assert waiting.getresponse().status == 200
    for guest in guests[1:]:
        guest.close()


def test_invalid_packets_end_the_connection_silently(attacked: Callable[..., AttackedServer]) -> None:
    """Invalid packets end the connection and invalid acknowledgements have no effect; the terminal stays clean."""
    server = attacked()
    for message in (b"\xc1", b"\x93\x01", b"\x80", event("", {})[:-1], msgspec.msgpack.encode({"type": 2, "nsp": "/"})):
        guest = raw(server)
        guest.send_binary(message)
        with contextlib.suppress(ConnectionResetError, websocket.WebSocketConnectionClosedException):
            while guest.recv():
                pass
    address = f"{server.url}/socket.io/?EIO=4&transport=polling"
    sid = json.loads(requests.get(address, timeout=10).text[1:])["sid"]
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}  # without a key
    with contextlib.suppress(requests.RequestException):
        requests.get(f"{address}&sid={sid}", headers=upgrade, timeout=1)
    guest = raw(server)
    for number in (0, -1, 2**40, "x", None, [1]):
        guest.send_binary(msgspec.msgpack.encode({"type": 3, "nsp": "/", "id": number, "data": 5}))
    is_well(server)
    guest.close()


def test_text_that_is_no_packet_ends_the_connection_without_a_stack_trace(
    attacked: Callable[..., AttackedServer],
) -> None:
    server = attacked()
    for text in ("", "b!", "x", "4" + "[" * 100_000):
        guest = raw(server)
        guest.send(text)
        assert guest.sock is not None and ended(guest.sock), text
        guest.close()
    is_well(server)


def test_an_invalid_payload_is_refused_without_a_stack_trace(attacked: Callable[..., AttackedServer]) -> None:
    """The payload is polled by a session that has received its id."""
    server = attacked()
    address = f"{server.url}/socket.io/?EIO=4&transport=polling"
    sid = json.loads(requests.get(address, timeout=10).text[1:])["sid"]
    for body in (b"\x1e", b"b!", b"b1", b"x", b"4[1", b"\xff", "\u0665".encode(), b"3\x1e", b"4" + b"[" * 100_000):
        assert requests.post(f"{address}&sid={sid}", data=body, timeout=10).status_code == 400, body
    for body in (b"4", b"4probe", b"bAAAA", b"3"):
        assert requests.post(f"{address}&sid={sid}", data=body, timeout=10).status_code in (200, 400), body
    is_well(server)
