"""Others behind the same address still enter a class whose seats a machine takes one after another."""

import contextlib
import threading
from collections.abc import Callable

import msgspec
import pytest
import websocket

from app.classroom import admission
from tests.attack.socket_server import event
from tests.server.classes import TOKEN, Room
from tests.server.conftest import Server, wait_for


def take_a_seat(room: Room) -> bool:
    """Enter the class with a new pass, and leave. Returns whether there was a seat."""
    address = f"ws://127.0.0.1:{room.server.port}/socket.io/?EIO=4&transport=websocket"
    guest = websocket.create_connection(address, cookie=room.ticket(), timeout=20)
    try:
        guest.recv()
        guest.send_binary(msgspec.msgpack.encode({"type": 0, "nsp": "/"}))
        guest.send_binary(event("class_enter", {"language": "en"}, 1))
        while True:
            data = guest.recv()
            assert isinstance(data, bytes), data
            packet = msgspec.msgpack.decode(data)
            if packet["type"] == 3:
                return bool(packet["data"][0]["ok"])
    finally:
        guest.close()


@pytest.mark.slow
def test_a_class_of_40_comes_in_from_the_address_of_a_flood_of_seats(
    make_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flood takes 700 passes and twice the seats of a class before, and more while the class enters."""
    monkeypatch.setattr(admission, "MAX_SEATS", 120)
    monkeypatch.setattr(admission, "MAX_UNCONFIRMED", 80)
    room = Room(make_server(token=TOKEN))
    for _ in range(700):
        room.get(room.presenting["join"])
    taken, is_over = [0], threading.Event()

    def flood() -> None:
        while not is_over.is_set():
            with contextlib.suppress(OSError, websocket.WebSocketException, AssertionError):
                taken[0] += take_a_seat(room)

    flooding = [threading.Thread(target=flood) for _ in range(4)]
    try:
        for thread in flooding:
            thread.start()
        wait_for(lambda: taken[0] > 240, seconds=90)
        students = [room.follower()[0] for _ in range(40)]
        found = room.server.app.extensions["kvtheater.classrooms"].get(room.id)
        before = taken[0]
        wait_for(lambda: taken[0] > before + 20, seconds=60)
    finally:
        is_over.set()
        for thread in flooding:
            thread.join(60)
    for student in students:
        assert student.do("class_lost", lost=True)["lost"], "the flood has taken nobody's seat"
    assert len(found.seats()) <= 80
