"""Followers that read a run's records and arrays over and over: the server's memory stays within a stated bound."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests
import websocket

from app.ground.limits import Limits
from app.server.events import READ_BYTES
from app.transport.outbox import Outbox, UnsentBytes
from app.transport.pending_events import Client, PendingEvents
from tests.attack.socket_server import AttackedServer, event
from tests.server.classes import OWNER, TOKEN, Member

MIB = 1024 * 1024
SOCKETS, ROUNDS, AT_ONCE = 16, 6, 16
MAX_DURING = 900  # MiB: 16 guests have 5 to 12 MiB each unread, the frames on their way, and what malloc holds
MAX_AFTER = 384  # MiB: malloc returns memory late after several frees at once


class Watched:
    """Growth of a process's resident memory."""

    def __init__(self, server: AttackedServer) -> None:
        self._server, self.before, self.most, self._over = server, server.resident, 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            self.most = max(self.most, self.now)

    @property
    def now(self) -> int:
        return self._server.resident - self.before

    def __enter__(self) -> Watched:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[AttackedServer]:
    server = AttackedServer(tmp_path, token=TOKEN, capture_width=128)
    yield server
    assert server.close() == ""


def come_in(server: AttackedServer, join: str) -> websocket.WebSocket:
    """Open a follower's web socket, with a pass and without the token."""
    answer = requests.get(server.url + join, allow_redirects=False, timeout=20)
    cookie = answer.headers["Set-Cookie"].partition(";")[0]
    address = f"ws://127.0.0.1:{server.port}/socket.io/?EIO=4&transport=websocket"
    guest = websocket.create_connection(address, cookie=cookie, timeout=30)
    guest.recv()
    guest.send_binary(msgspec.msgpack.encode({"type": 0, "nsp": "/"}))
    guest.send_binary(event("class_enter", {"language": "en"}, 99))
    assert answers(guest, 1)[0]["ok"]
    return guest


def answers(guest: websocket.WebSocket, count: int) -> list[dict[str, Any]]:
    """Read that many acknowledgements, and the messages between them."""
    found: list[dict[str, Any]] = []
    while len(found) < count:
        data = guest.recv()
        if isinstance(data, str):  # a ping of Engine.IO
            guest.send(data.replace("2", "3", 1))
            continue
        packet = msgspec.msgpack.decode(data)
        if packet["type"] == 3:
            found.append(packet["data"][0])
    return found


def test_reads_count_as_unread_before_they_are_answered() -> None:
    """Only two of a guest's sixteen concurrent reads fit into its 4 MiB; an owner's are all answered."""
    limits = Limits()
    pending, unsent = PendingEvents(limits), UnsentBytes(limits)
    guest, owner = Client(Outbox(unsent), set()), Client(Outbox(unsent))
    assert [pending.accept(guest, 100, READ_BYTES) is None for _ in range(16)] == [True] * 2 + [False] * 14
    assert [pending.accept(owner, 100, READ_BYTES) is None for _ in range(16)] == [True] * 16
    pending.done(guest, 100, READ_BYTES)
    assert pending.accept(guest, 100, READ_BYTES) is None


@pytest.mark.slow
def test_sixteen_followers_that_read_in_rounds_fill_no_memory(attacked: AttackedServer) -> None:
    """Each sends 16 reads at once and reads the answers a second later: 1 GiB a round if all were answered."""
    owner = Member(attacked.url, headers=OWNER)
    presenting = owner.do("class_open", title="", names="none", base=attacked.url)["presenting"]
    theater = owner.do("create", captures=False)["theater"]
    owner.do("class_cast", id=presenting["state"]["id"], theater=theater, view={})
    owner.do("submit", theater=theater, prompts=[{"text": "x" * 1000}])
    owner.do("prefill", theater=theater)  # 1,000 tokens, 2 layers, q k v of 4 · 128 float16: 2,048,000 bytes
    for _ in range(3):
        owner.do("submit", theater=theater, prompts=[{"text": "x" * 1000}] * 64)
    message = {"theater": theater, "from": 0, "to": 64, "captures": True}
    whole = owner.do("read", **message)
    size = sum(len(part or b"") for part in [*whole["records"], *whole["captures"]])
    assert size > 2 * MIB
    guests = [come_in(attacked, presenting["join"]) for _ in range(SOCKETS)]
    codes: list[str | None] = []
    with Watched(attacked) as watched:
        for _ in range(ROUNDS):
            for guest in guests:
                for number in range(AT_ONCE):
                    guest.send_binary(event("read", message, number))
            time.sleep(1.0)
            for guest in guests:
                codes += [(one.get("error") or {}).get("code") for one in answers(guest, AT_ONCE)]
        for guest in guests:
            guest.send_binary(event("read", message, 1))
            assert answers(guest, 1)[0]["ok"], "a guest that has read is served again"
    assert set(codes) == {None, "busy"}
    assert watched.most < MAX_DURING, f"{codes.count(None)} answers of {size} bytes"
    deadline = time.monotonic() + 60
    while watched.now > MAX_AFTER and time.monotonic() < deadline:
        time.sleep(0.2)
    assert watched.now <= MAX_AFTER
    for guest in guests:
        with contextlib.suppress(OSError, websocket.WebSocketException):
            guest.close()
    owner.io.disconnect()
