"""Seats of a class are limited by the presenter's doors and by the bounds per address."""

import pytest

from app.classroom import admission
from app.classroom.admission import network_of
from app.classroom.classroom import Classroom
from app.ground.errors import AppError
from tests.server.classes import OWNER, Room
from tests.server.conftest import wait_for


@pytest.fixture
def found() -> Classroom:
    return Classroom("id", "", "optional", lambda one, everybody: None)


def come_and_go(found: Classroom, name: str, address: str) -> None:
    found.enter(name, f"sid-{name}", "en", address)
    found.forget(f"sid-{name}")


def test_closed_doors_refuse_newcomers_only(room: Room) -> None:
    cookie, unused = room.ticket(), room.ticket()
    guest, entered = room.follower(cookie)
    room.presenter.do("class_doors", id=room.id, open=False)
    for way in (room.presenting["join"], f"/j/{room.presenting['code']}"):
        answer = room.get(way)
        assert answer.status == 422 and "Set-Cookie" not in answer.headers
        assert "closed the doors" in answer.read().decode()
        assert room.get(way, Cookie=cookie).status == 303, "a browser with a seat follows the link again"
    late = room.member(headers={"Cookie": unused})
    refused = late.refused("class_enter", language="zh")
    assert refused["code"] == "refused" and "closed the doors" in refused["message"] and "门" in refused["said"]["zh"]
    assert room.get(room.presenting["join"], Cookie=unused).status == 422, "a pass without a seat is outside"
    assert guest.do("class_lost", lost=True)["lost"]
    guest.io.disconnect()
    _, mine = room.follower(cookie)
    assert mine["mine"]["seat"] == entered["mine"]["seat"]
    room.presenter.do("class_doors", id=room.id, open=True)
    assert late.do("class_enter", language="zh")["mine"]["seat"] == entered["mine"]["seat"] + 1


def test_the_desk_says_how_many_came_from_where_and_whether_the_doors_are_open(room: Room) -> None:
    for i in (1, 2, 1, 1):  # the fourth part of an address is not shown
        cookie = room.ticket()
        headers = {"Cookie": cookie, "X-Forwarded-For": f"10.1.2.{i}"}
        room.member(headers=headers).do("class_enter", language="en")
    room.follower()
    expected = [{"origin": "10.1.2.x", "seats": 4, "here": 4}, {"origin": "127.0.0.x", "seats": 1, "here": 1}]
    wait_for(lambda: room.presenter.desks and room.presenter.desks[-1]["origins"] == expected)
    assert room.presenter.desks[-1]["open"] is True
    room.presenter.do("class_doors", id=room.id, open=False)
    wait_for(lambda: room.presenter.desks[-1]["open"] is False)
    assert room.member(headers=OWNER).refused("class_doors", id=room.id, open=True)["code"] == "forbidden"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("192.168.1.77", "192.168.1.x"),
        ("::ffff:192.168.1.77", "192.168.1.x"),
        ("2001:db8:aa:bb:1:2:3:4", "2001:db8:aa::x"),
        ("fe80::1%eth0", "fe80::x"),
        ("::1", "::x"),
        ("", "?"),
        ("<b>nowhere</b>", "?"),
    ],
)
def test_addresses_are_shown_without_the_last_part(address: str, shown: str) -> None:
    assert network_of(address) == shown


def test_seats_without_a_lasting_connection_expire_and_make_room(
    found: Classroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flood of 1,000 seats leaves the maximum of unconfirmed ones; a class of 200 behind its address can enter."""
    for i in range(1_000):
        come_and_go(found, f"flood-{i}", "10.0.0.1")
    assert len(found.seats()) == admission.MAX_UNCONFIRMED
    for i in range(200):
        found.enter(f"here-{i}", f"here-{i}", "en", "10.0.0.1")
    for i in range(1_000):
        come_and_go(found, f"more-{i}", "10.0.0.1")
    assert sum(seat.is_here for seat in found.seats()) == 200
    assert len(found.seats()) == admission.MAX_UNCONFIRMED
    monkeypatch.setattr(admission, "EXPIRE_SECONDS", 0.0)
    assert {seat["name"] for seat in found.desk()["seats"]} == {seat.name for seat in found.seats() if seat.is_here}


def test_held_connections_are_counted_until_they_have_lasted(found: Classroom, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(admission.MAX_UNCONFIRMED):
        found.enter(f"held-{i}", f"held-{i}", "en", "10.0.0.1")
    with pytest.raises(AppError, match="at once") as refused:
        found.enter("next", "next", "en", "10.0.0.1")
    assert refused.value.code == "busy", "a page asks again"
    found.enter("other", "other", "en", "10.0.0.2")
    monkeypatch.setattr(admission, "CONFIRM_SECONDS", 0.0)
    found.enter("next", "next", "en", "10.0.0.1")


def test_one_address_cannot_take_all_seats(found: Classroom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "CONFIRM_SECONDS", 0.0)
    for i in range(admission.MAX_OF_ADDRESS):
        found.enter(f"held-{i}", f"held-{i}", "en", "10.0.0.1")
    with pytest.raises(AppError):
        found.enter("next", "next", "en", "10.0.0.1")
    found.enter("other", "other", "en", "10.0.0.2")


def test_answers_and_the_driver_survive_an_hour_of_absence(found: Classroom, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood evicts seats that have answered last, with their answers; the seat that drives stays."""
    monkeypatch.setattr(admission, "EXPIRE_SECONDS", 0.0)
    found.ask("number", "?", [])
    for name in ("answered", "driver", "silent"):
        found.enter(name, name, "en", "10.0.0.1")
    answered, driver, _ = found.seats()
    found.answer(answered, 0, 0, 7)
    found.set_driver(driver.number)
    for name in ("answered", "driver", "silent"):
        found.forget(name)
    assert len(found.desk()["seats"]) == 2
    monkeypatch.setattr(admission, "EXPIRE_SECONDS", 3600.0)
    for i in range(admission.MAX_UNCONFIRMED - 1):
        found.enter(f"here-{i}", f"here-{i}", "en", "10.0.0.1")
    assert found.desk()["answered"] == 1
    found.enter("last", "last", "en", "10.0.0.1")
    assert found.desk()["answered"] == 0, "the vote of a seat that gave way went with it"
    assert found.driver_name == driver.name
