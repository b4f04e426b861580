"""Attacks by a guest of a class get a one-sentence refusal, while others are answered and steps continue.

Nothing here is timed: that others are not delayed is shown by the order of events.
"""

import contextlib
import http.client
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from app.classroom import admission
from app.classroom.bounds import MAX_PER_GUEST
from app.classroom.classroom import Classroom
from app.ground.errors import AppError
from app.ground.limits import Limits
from app.session.session import Session
from tests.server.classes import OWNER, TOKEN, Member, Room
from tests.server.conftest import Server, wait_for

MAX_SOCKETS = Limits().sessions_of_one

BY_WORKERS = True


class Flood:
    """Events of one client, sent without waiting, and their acknowledgements."""

    def __init__(self, member: Member, event: str, body: dict[str, Any]) -> None:
        self.answers: list[dict[str, Any]] = []
        self._over = False
        self._member = member
        self._thread = threading.Thread(target=self._send, args=(event, body))
        self._thread.start()
        wait_for(lambda: self.answers)

    def _send(self, event: str, body: dict[str, Any]) -> None:
        while not self._over and self._member.io.connected:
            with contextlib.suppress(Exception):
                self._member.io.emit(event, body, callback=self.answers.append)

    def end(self) -> None:
        self._over = True
        self._thread.join(30)
        with contextlib.suppress(Exception):
            self._member.io.disconnect()


def one_sentence(answers: list[dict[str, Any]]) -> None:
    """Check that every refusal is one sentence of a known kind."""
    for answer in answers:
        if not answer["ok"]:
            assert set(answer["error"]) - {"said"} == {"code", "message"}
            assert answer["error"]["code"] in ("busy", "refused", "forbidden", "bad_request", "not_found")
            assert "\n" not in answer["error"]["message"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("event", "body"),
    [
        ("class_answer", {"poll": 0, "round": 0, "given": 1}),
        ("class_answer", {"poll": 9, "round": 0, "given": 1}),
        ("class_lost", {"lost": True}),
        ("class_rename", {"name": "x" * 1_000}),
        ("class_cast", {"id": "forged", "theater": None, "view": {"layer": "1"}}),
        ("tokenize", {"text": "x" * 4_000}),
    ],
)
def test_a_flood_of_events_delays_no_other_client(room: Room, event: str, body: dict[str, Any]) -> None:
    theater = room.on_stage()
    room.presenter.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 64})
    room.presenter.do("class_ask", id=room.id, kind="number", text="?")
    attacker, other = room.follower()[0], room.follower()[0]
    other.do("join", theater=theater)
    flood = Flood(attacker, event, body)
    try:
        wait_for(lambda: len(flood.answers) > 20)  # it is a flood; how large it becomes depends on the machine
        for given in range(3):
            other.do("class_answer", poll=0, round=0, given=given)
            before = len(other.records())
            room.presenter.do("step", theater=theater)
            wait_for(lambda: len(other.records()) > before)  # noqa: B023
    finally:
        flood.end()
    one_sentence(flood.answers)


def test_a_flood_leaves_no_marks_but_one(room: Room) -> None:
    guest, _ = room.follower()
    for _ in range(40):
        guest.do("class_lost", lost=True)
        guest.do("class_lost", lost=False)
    found = room.server.app.extensions["kvtheater.classrooms"].get(room.id)
    assert len(found.marks()) == 1


PRESENTERS: list[tuple[str, dict[str, Any]]] = [
    ("class_end", {}),
    ("class_cast", {"theater": None, "view": {}}),
    ("class_hold", {"held": True}),
    ("class_hand", {"seat": 0}),
    ("class_remote", {"seat": 0, "allowed": True}),
    ("class_lesson", {"lesson": "computed-twice"}),
    ("class_send_away", {"seat": 0}),
    ("class_keep", {"until": "2027-01-01"}),
    ("class_unkeep", {}),
    ("class_doors", {"open": False}),
    ("class_labs", {"open": True}),
    ("class_ask", {"kind": "number", "text": "?"}),
    ("class_poll", {"poll": 0, "to": "shown"}),
    ("class_clock", {"poll": 0, "seconds": 5.0}),
]


@pytest.mark.parametrize(("event", "body"), PRESENTERS)
def test_a_forged_role(room: Room, event: str, body: dict[str, Any]) -> None:
    """A guest or another owner cannot act as the presenter, whatever fields they send."""
    for one in (room.follower()[0], room.member(headers=OWNER)):
        assert one.refused(event, id=room.id, **body)["code"] == "forbidden"
        for extra in ({"secret": room.secret}, {"presenter": True}, {"sid": "x"}):
            assert one.refused(event, id=room.id, **body, **extra)["code"] in ("bad_request", "forbidden")


def test_every_event_of_the_presenter_is_tried() -> None:
    from app.classroom.events import CLASS_EVENTS

    followers = {"enter", "rename", "answer", "lost", "wish", "lab", "press"}
    tried = {name.removeprefix("class_") for name, _ in PRESENTERS}
    assert {name.removeprefix("class_") for name in CLASS_EVENTS} == followers | tried | {"open", "present"}


def test_a_seat_cannot_answer_for_another(room: Room) -> None:
    victim, entered = room.follower()
    room.presenter.do("class_ask", id=room.id, kind="number", text="?")
    victim.do("class_answer", poll=0, round=0, given=7)
    attacker, _ = room.follower()
    for extra in ({"seat": entered["mine"]["seat"]}, {"key": "x"}, {"name": entered["mine"]["name"]}):
        assert attacker.refused("class_answer", poll=0, round=0, given=1, **extra)["code"] == "bad_request"
    assert attacker.refused("class_rename", name=entered["mine"]["name"])["code"] == "refused"
    room.presenter.do("class_poll", id=room.id, poll=0, to="shown")
    wait_for(lambda: (victim.last().get("poll") or {}).get("phase") == "shown")
    assert [(one["value"], one["count"]) for one in victim.last()["poll"]["tallies"][0]["answers"]] == [(7, 1)]


def test_names_and_views_of_a_megabyte(room: Room) -> None:
    guest, _ = room.follower()
    for name in ("x" * 1_000_000, "\u202e" * 300_000, "<script>" * 100_000):
        assert guest.refused("class_rename", name=name)["code"] == "bad_request"
    views: list[dict[str, str]] = [
        {"layer": "x" * 1_000_000},
        {"x" * 1_000: "1"},
        {f"a{chr(97 + i // 26)}{chr(97 + i % 26)}": "x" for i in range(600)},
        {f"a{chr(97 + i)}": "x" * 400 for i in range(26)},
    ]
    for view in views:
        assert room.presenter.refused("class_cast", id=room.id, theater=None, view=view)["code"] == "bad_request"
    room.presenter.do("class_cast", id=room.id, theater=None, view={"layer": "1"})


def test_earlier_secrets_and_passes_are_refused(make_server: Callable[..., Server]) -> None:
    """The secrets are of another server, of an ended class, and of a removed seat."""
    other = Room(make_server(token=TOKEN))
    room = Room(make_server(token=TOKEN))
    theater = room.on_stage()
    foreign = other.ticket()
    assert room.get("/", Cookie=foreign).status == 401
    forged = f"{foreign.partition('=')[0]}={room.id}.{foreign.partition('.')[2]}"
    assert room.get("/", Cookie=forged).status == 401
    cookie = room.ticket()
    guest, _ = room.follower(cookie)
    guest.do("join", theater=theater)
    owner = room.member(headers=OWNER)
    secret = {"secret": other.secret, "base": room.server.url}
    assert owner.refused("class_present", id=room.id, **secret)["code"] == "forbidden"
    assert owner.refused("class_present", id=other.id, **secret)["code"] == "not_found"
    room.presenter.do("class_end", id=room.id)
    room.presenter.do("submit", theater=theater, prompts=[{"text": "secret"}])
    room.presenter.do("prefill", theater=theater)
    assert guest.refused("join", theater=theater)["code"] == "forbidden"
    assert guest.refused("read", theater=theater, to=9, **{"from": 0})["code"] == "forbidden"
    assert not guest.records()  # nor does one that watched see what comes after the class
    again = room.member(headers={"Cookie": cookie})
    assert again.refused("class_enter", language="en")["code"] == "refused"
    assert room.presenter.refused("class_present", id=room.id, secret=room.secret, base=room.server.url)


@pytest.mark.slow
def test_thousands_of_joins_from_one_address(room: Room) -> None:
    """Each join gets a pass, which occupies no seat; members and the presenter are still answered."""
    knocks = 750  # from each of four addresses
    guest, _ = room.follower()
    room.presenter.do("class_ask", id=room.id, kind="number", text="?")
    statuses: list[int] = []

    def knock() -> None:
        door = http.client.HTTPConnection("127.0.0.1", room.server.port, timeout=60)
        for _ in range(knocks):
            door.request("GET", room.presenting["join"])
            answer = door.getresponse()
            answer.read()
            statuses.append(answer.status)

    knocking = [threading.Thread(target=knock) for _ in range(4)]
    for thread in knocking:
        thread.start()
    wait_for(lambda: len(statuses) > 700, seconds=60)
    guest.do("class_answer", poll=0, round=0, given=1)
    room.presenter.do("class_hold", id=room.id, held=True)
    assert any(thread.is_alive() for thread in knocking)
    for thread in knocking:
        thread.join(120)
    assert statuses == [303] * (4 * knocks)
    assert len(room.server.app.extensions["kvtheater.classrooms"].get(room.id).seats()) == 1  # a pass is no seat


def test_ten_thousand_seats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disconnected seats without an answer are removed beyond the limit; if all are connected, the next is refused."""
    found = Classroom("id", "", "optional", lambda one, everybody: None)
    for i in range(3_000):
        found.enter(f"gone-{i}", f"sid-{i}", "en", f"10.0.0.{i % 60}")
        found.forget(f"sid-{i}")
    assert len(found.seats()) == admission.MAX_SEATS
    monkeypatch.setattr(admission, "MAX_SEATS", 50)
    full = Classroom("id", "", "optional", lambda one, everybody: None)
    for i in range(50):
        full.enter(f"here-{i}", f"sid-{i}", "zh", "10.0.0.1")
    for i in range(200):
        with pytest.raises(AppError, match="full"):
            full.enter(f"more-{i}", f"more-{i}", "en", "10.0.0.2")
    assert len({seat.name for seat in full.seats()}) == len({seat.number for seat in full.seats()}) == 50
    full.enter("here-7", "again", "en", "10.0.0.3")  # a member returns


@pytest.mark.slow
def test_connections_of_a_seat_are_limited(room: Room) -> None:
    """A phone that changes networks leaves old connections; the oldest are closed, and the newest is answered."""
    cookie = room.ticket()
    sockets = [room.follower(cookie)[0] for _ in range(MAX_SOCKETS * 4)]
    wait_for(lambda: sum(one.io.connected for one in sockets) == MAX_SOCKETS)
    assert [one.io.connected for one in sockets] == [False] * (MAX_SOCKETS * 3) + [True] * MAX_SOCKETS
    sockets[-1].do("class_lost", lost=True)
    found = room.server.app.extensions["kvtheater.classrooms"].get(room.id)
    (seat,) = found.seats()
    assert len(seat.sids) == MAX_SOCKETS


def raw_socket(room: Room, cookie: str) -> socket.socket:
    """Open a web socket that sends nothing after its handshake."""
    found = socket.create_connection(("127.0.0.1", room.server.port), timeout=20)
    head = (
        "GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        f"Cookie: {cookie}\r\n\r\n"
    )
    found.sendall(head.encode())
    assert found.recv(4096).startswith(b"HTTP/1.1 101")
    return found


@pytest.mark.slow
def test_sockets_that_say_nothing_take_no_places(make_server: Callable[..., Server]) -> None:
    """Sockets of one pass are limited, whatever they send; silent ones are closed."""
    room = Room(make_server(token=TOKEN, limits=Limits(greet_seconds=2.0)))
    cookie = room.ticket()
    room.follower(cookie)
    sockets = [raw_socket(room, cookie) for _ in range(MAX_SOCKETS * 5)]
    engine = room.server.transport.clients._engine
    assert len(engine.sockets) <= MAX_SOCKETS + 1  # and the presenter's
    wait_for(lambda: len(engine.sockets) == 1)  # the guest's own went for them
    again, entered = room.follower(cookie)
    assert entered["mine"]["seat"] == 0
    again.do("class_lost", lost=True)
    for one in sockets:
        one.close()


def test_a_guest_cannot_hold_all_threads_by_its_run(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command to a slow run occupies a thread: a guest gets a few, and others are still answered."""
    theater = room.on_stage()
    room.presenter.do("class_labs", id=room.id, open=True)
    room.presenter.do("class_ask", id=room.id, kind="number", text="?")
    cookie = room.ticket()
    sockets = [room.follower(cookie)[0] for _ in range(MAX_SOCKETS)]
    other, _ = room.follower()
    lab = sockets[0].do("class_lab", open=True)["lab"]
    assert lab != theater
    go_on = threading.Event()
    monkeypatch.setattr(Session, "focus", lambda *_: go_on.wait(30))
    answers: list[dict[str, Any]] = []
    for one in sockets:
        for _ in range(12):
            one.io.emit("focus", {"theater": lab, "layers": [0], "heads": None}, callback=answers.append)
    wait_for(lambda: len(answers) == MAX_SOCKETS * 12 - MAX_PER_GUEST)
    assert all(answer["error"]["code"] == "busy" for answer in answers)
    other.do("class_answer", poll=0, round=0, given=1)
    go_on.set()
    wait_for(lambda: len(answers) == MAX_SOCKETS * 12)
    assert sum(answer["ok"] for answer in answers) == MAX_PER_GUEST


def test_long_texts_of_guests(room: Room) -> None:
    guest, _ = room.follower()
    assert guest.refused("tokenize", text="x" * 5_000)["code"] == "refused"
    assert guest.do("tokenize", text="abc")["token_ids"] == [97, 98, 99]
