"""Classes are stored only on request, until a date."""

import datetime
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.classroom.database import database_url
from app.classroom.results import ClassResults, QuestionResult
from app.classroom.store import FILE, Store
from app.ground.errors import HTTP_STATUS, AppError
from tests.server.classes import OWNER, TOKEN, Room
from tests.server.conftest import Server, wait_for

# Dates that are what they are called whenever a test runs: these may run past midnight, and a module is read before.
UNTIL = datetime.date.today() + datetime.timedelta(days=7)
PAST = datetime.date.today() - datetime.timedelta(days=1)
RESULTS = ClassResults(
    id="abc",
    title="KV 缓存",
    names="optional",
    began=1.5,
    ended=None,
    students=["Ada", "月"],
    questions=[
        QuestionResult(
            number=1, kind="choice", text="?", options=["a", "b"], right=1, asked=2.5, rounds=[{0: 1, 1: None}, {}]
        ),
        QuestionResult(number=2, kind="number", text="n", options=[], right=None, asked=3.5, rounds=[{1: 2.5}]),
        QuestionResult(number=3, kind="token", text="t", options=[], right="月", asked=3.5, rounds=[{1: "月"}]),
    ],
    lost=[[3.5, 4]],
)


def a_class(room: Room) -> None:
    """Hold a complete class: people, names, two questions, marks."""
    room.on_stage()
    followers = [room.follower()[0] for _ in range(3)]
    followers[0].do("class_rename", name="Ada Lovelace")
    room.presenter.do("class_ask", id=room.id, kind="choice", text="Which?", options=["yes", "no"])
    for one in followers:
        one.do("class_answer", poll=0, round=0, given=1)
    room.presenter.do("class_poll", id=room.id, poll=0, to="shown", right=1)
    room.presenter.do("class_ask", id=room.id, kind="token", text="Next token?")
    followers[0].do("class_answer", poll=1, round=0, given="moon")
    followers[0].do("class_lost", lost=True)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def listed(room: Room) -> list[dict[str, Any]]:
    import json

    answer = room.get("/api/classes", **OWNER)
    assert answer.status == 200
    found: list[dict[str, Any]] = json.loads(answer.read())["classes"]
    return found


def test_a_class_is_written_only_on_request(make_server: Callable[..., Server], tmp_path: Path) -> None:
    room = Room(make_server(token=TOKEN, data_dir=tmp_path))
    a_class(room)
    assert listed(room) == []
    room.presenter.do("class_end", id=room.id)
    room.server.close()
    for path in files(tmp_path):
        data = path.read_bytes()
        assert not any(word in data for word in (b"Lovelace", b"Which?", b"moon", room.id.encode(), b"127.0.0.1")), path
    assert not (tmp_path / FILE).exists()


def test_results_are_stored_until_a_date_and_deleted_with_one_click(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    room = Room(make_server(token=TOKEN, data_dir=tmp_path))
    a_class(room)
    room.presenter.do("class_keep", id=room.id, until=UNTIL.isoformat())
    wait_for(lambda: room.presenter.desks and room.presenter.desks[-1]["kept_until"] == UNTIL.isoformat())
    (card,) = listed(room)
    assert (card["title"], card["until"], card["students"], card["questions"]) == ("KV", UNTIL.isoformat(), 3, 2)
    room.presenter.do("class_poll", id=room.id, poll=1, to="shown", right="moon")
    room.presenter.do("class_end", id=room.id)
    assert listed(room)[0]["ended"] is not None  # what came later is there too
    text = room.get(f"/api/classes/{room.id}/answers.csv", **OWNER).read().decode()
    assert "Ada Lovelace,2,token,Next token?,1,moon,1" in text
    assert b"Which?" in room.get(f"/api/classes/{room.id}/page.html", **OWNER).read()
    room.presenter.do("class_unkeep", id=room.id)
    assert listed(room) == []
    assert room.get(f"/api/classes/{room.id}/answers.csv", **OWNER).status == 404
    room.server.close()
    assert b"Lovelace" not in (tmp_path / FILE).read_bytes()  # deleted is deleted


def test_a_stored_class_survives_a_restart(make_server: Callable[..., Server], tmp_path: Path) -> None:
    first = Room(make_server(token=TOKEN, data_dir=tmp_path))
    a_class(first)
    first.presenter.do("class_keep", id=first.id, until=UNTIL.isoformat())
    first.server.close()
    second = Room(make_server(token=TOKEN, data_dir=tmp_path))
    assert [card["id"] for card in listed(second)] == [first.id]
    second.presenter.do("class_unkeep", id=first.id)  # any owner: its presenter's secret is gone with its server
    assert listed(second) == []


def test_permission_to_store_a_class(make_server: Callable[..., Server], tmp_path: Path) -> None:
    room = Room(make_server(token=TOKEN, data_dir=tmp_path))
    guest, _ = room.follower()
    owner = room.member(headers=OWNER)
    for one in (guest, owner):
        assert one.refused("class_keep", id=room.id, until=UNTIL.isoformat())["code"] == "forbidden"
        assert one.refused("class_unkeep", id=room.id)["code"] == "forbidden"
    for until in ("2001-01-01", "2999-01-01", "soon", 5):
        assert room.presenter.refused("class_keep", id=room.id, until=until)["code"] == "bad_request", until
    cookie = room.ticket()
    assert room.get("/api/classes", Cookie=cookie).status == 401
    assert room.get(f"/api/classes/{room.id}/answers.csv", Cookie=cookie).status == 401


def test_a_server_without_storage_reports_it(make_server: Callable[..., Server]) -> None:
    room = Room(make_server(token=TOKEN))
    assert "keeps nothing" in room.presenter.refused("class_keep", id=room.id, until=UNTIL.isoformat())["message"]
    assert listed(room) == []


@pytest.fixture
def store(tmp_path: Path) -> Any:
    found = Store(None, f"sqlite:///{tmp_path / 'x' / 'kept.db'}")
    yield found
    found.stop()


def test_the_store_returns_what_was_stored(store: Store) -> None:
    assert store.all() == [] and store.expire() == 0
    store.save(RESULTS, UNTIL)
    store.save(RESULTS, UNTIL)  # again: instead of the first
    assert store.get("abc") == RESULTS
    assert store.all()[0]["students"] == 2
    store.delete("abc")
    store.delete("abc")
    with pytest.raises(AppError):
        store.get("abc")


def test_expired_results_are_deleted(store: Store) -> None:
    store.save(RESULTS, UNTIL)
    assert store.expire(UNTIL) == 0 and store.all()
    assert store.expire(UNTIL + datetime.timedelta(days=1)) == 1 and not store.all()


def test_expired_results_are_deleted_at_the_start(tmp_path: Path) -> None:
    first = Store(tmp_path, None)
    first.save(RESULTS, PAST)
    first.stop()
    second = Store(tmp_path, None)
    wait_for(lambda: not second.all())
    second.stop()
    with sqlite3.connect(tmp_path / FILE) as connection:
        assert all(
            not connection.execute(f"select count(*) from {name}").fetchone()[0]
            for name in ("classes", "students", "questions", "answers")
        )


def test_an_unwritable_database_is_explained_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"this is no database" * 100)
    store = Store(tmp_path, None)
    for ask in (store.all, lambda: store.save(RESULTS, UNTIL), lambda: store.get("abc")):
        with pytest.raises(AppError, match="database of stored classes reports") as error:
            ask()
        assert "\n" not in error.value.message and "Ada" not in error.value.message
        assert HTTP_STATUS[error.value.code] == 503
    store.stop()
    for wrong in ("nonsense", "nosuch://x/y"):
        with pytest.raises(ValueError):
            database_url(wrong)


@pytest.mark.parametrize("failure", [RuntimeError("no route to host"), ConnectionRefusedError(111, "refused")])
def test_a_database_that_cannot_be_reached_is_unavailable(
    failure: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drivers have their own errors; an unreachable server is not a bug of this program."""

    def connect(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr("sqlalchemy.create_engine", connect)
    (tmp_path / FILE).touch()
    store = Store(tmp_path, None)
    for ask in (store.all, lambda: store.save(RESULTS, UNTIL), lambda: store.get("abc")):
        with pytest.raises(AppError, match="database of stored classes reports") as error:
            ask()
        assert HTTP_STATUS[error.value.code] == 503
    store.stop()
