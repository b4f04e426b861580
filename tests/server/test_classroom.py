"""A class on a real server: admission, permissions, broadcasts, and polls."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urljoin

import pytest

from app.classroom.bounds import MAX_PER_GUEST
from app.classroom.codes import BURST
from tests.server.classes import OWNER, TOKEN, Room
from tests.server.conftest import Server, wait_for

BY_WORKERS = True


def test_a_class_is_entered_by_link_or_code(room: Room) -> None:
    """A class is entered by the link in the QR code or by a typed code, and not without either."""
    code = room.presenting["code"]
    for way in (
        room.presenting["join"],
        f"/j/{code}",
        f"/j/{code.upper()[:3]}-{code.upper()[3:]}",
        f"/j/in?code={code}",
    ):
        answer = room.get(way)
        assert (answer.status, answer.headers["Location"]) == (303, f"../?class={room.id}")
        assert "HttpOnly" in answer.headers["Set-Cookie"]
    assert room.get("/j/").status == 200
    assert room.get("/j").status == 308
    assert room.get("/j/zzzzzz").status == 404
    assert room.get(f"/j/{code}.{'x' * 22}").status == 404
    again = room.get(room.presenting["join"], Cookie=room.ticket())
    assert again.headers["Set-Cookie"] is None  # the seat that one has


def test_the_entry_pages_files_load_without_a_pass(room: Room) -> None:
    """Style sheets and icon of the entry page load with a right or a wrong code; no other file of these folders
    does.
    """
    for way in ("/j/", "/j/zzzzzz"):
        page = room.get(way, **{"Accept-Language": "zh"}).read().decode()
        named = re.findall(r'(?:href|src)="([^"]+)"', page)
        assert any(path.endswith(".css") for path in named)
        for path in named:
            assert room.get(urljoin(way, path)).status == 200, path
    for path in ("/static/css/base.css", "/static/js/main.js", "/static/css/../js/main.js"):
        assert room.get(path).status == 401, path


def test_a_guest_reaches_what_a_followers_page_needs_and_nothing_else(room: Room) -> None:
    cookie = room.ticket()
    for path in ("/", "/static/js/main.js", "/words/en.json", "/api/model", "/vendor/plotly.min.js", "/docs/index"):
        assert room.get(path).status == 401, path
        assert room.get(path, Cookie=cookie).status == 200, path
    for path in (
        "/api/theaters",
        "/api/recordings",
        "/bench",
        "/api/machine",
        "/metrics",
        "/api/lessons",
        "/static/../pyproject.toml",
    ):
        assert room.get(path, Cookie=cookie).status == 401, path
    name, _, value = cookie.partition("=")
    forged = value[:-1] + ("0" if value[-1] != "0" else "1")
    assert room.get("/", Cookie=f"{name}={forged}").status == 401


def test_all_followers_get_the_presenters_view(room: Room) -> None:
    early, entered = room.follower()
    assert entered["state"]["theater"] is None
    theater = room.on_stage()
    wait_for(lambda: early.last().get("theater") == theater)
    late, entered = room.follower()
    assert entered["state"]["theater"] == theater and entered["state"]["view"] == {"layer": "1"}
    for one in (early, late):
        assert one.do("join", theater=theater)["theater"] == theater
    room.presenter.do("submit", theater=theater, prompts=[{"text": "abc"}])
    room.presenter.do("prefill", theater=theater)
    wait_for(lambda: early.records() and early.records() == late.records())


def test_only_the_driver_commands_the_classes_run(room: Room) -> None:
    """Other owners may not; a seat that is handed control may, until it is taken back."""
    theater = room.on_stage()
    guest, entered = room.follower()
    other = room.member(headers=OWNER)
    for one in (guest, other):
        for event in ("prefill", "step", "reset", "pause", "focus", "record_stop"):
            body: dict[str, Any] = {"layers": None, "heads": None} if event == "focus" else {}
            assert one.refused(event, theater=theater, **body)["code"] == "forbidden", event
        assert one.refused("class_cast", id=room.id, theater=theater, view={})["code"] == "forbidden"
        assert one.refused("class_hand", id=room.id, seat=0)["code"] == "forbidden"
    room.presenter.do("class_hand", id=room.id, seat=entered["mine"]["seat"])
    guest.do("reset", theater=theater)
    guest.do("class_cast", id=room.id, theater=theater, view={"head": "2"})
    assert room.presenter.refused("reset", theater=theater)["message"].endswith(f"{entered['mine']['name']} drives now")
    room.presenter.do("class_hand", id=room.id, seat=None)
    assert guest.refused("reset", theater=theater)["code"] == "forbidden"
    room.presenter.do("reset", theater=theater)


def test_a_guest_has_only_the_runs_of_its_class(room: Room) -> None:
    theater = room.on_stage()
    private: str = room.member(headers=OWNER).do("create")["theater"]
    guest, _ = room.follower()
    guest.do("join", theater=theater)
    assert guest.refused("join", theater=private)["code"] == "forbidden"
    assert guest.refused("read", theater=private, to=1, **{"from": 0})["code"] == "forbidden"
    assert guest.refused("create")["code"] == "forbidden"
    assert guest.refused("fork", theater=theater, at=0, change=None)["code"] == "forbidden"
    assert guest.refused("lesson_open", lesson="twice", language="en")["code"] == "forbidden"
    assert guest.refused("bench_run", scenario="guard")["code"] == "forbidden"
    assert guest.refused("class_cast", id=room.id, theater=private, view={})["code"] == "forbidden"


def test_the_secret_is_the_presenters_alone(room: Room) -> None:
    guest, entered = room.follower()
    assert room.secret not in str(entered)
    assert (
        guest.refused("class_present", id=room.id, secret=room.secret, base=room.server.url)["code"] == "forbidden"
    )  # no owner
    owner = room.member(headers=OWNER)
    assert owner.refused("class_present", id=room.id, secret="x" * 32, base=room.server.url)["code"] == "forbidden"
    again = owner.do("class_present", id=room.id, secret=room.secret, base=room.server.url)
    assert room.secret not in str(again)
    owner.do("class_end", id=room.id)
    assert owner.refused("class_present", id=room.id, secret=room.secret, base=room.server.url)["code"] == "forbidden"
    assert room.get(room.presenting["join"]).status == 404


def ask(room: Room, **fields: Any) -> int:
    room.presenter.do("class_ask", id=room.id, **fields)
    wait_for(lambda: (room.presenter.last().get("poll") or {}).get("phase") == "open")
    return int(room.presenter.last()["poll"]["id"])


def test_results_are_shown_after_two_rounds(room: Room) -> None:
    followers = [room.follower()[0] for _ in range(3)]
    poll = ask(room, kind="choice", text="Which?", options=["a", "b"])
    for one, given in zip(followers, (0, 0, None), strict=True):
        one.do("class_answer", poll=poll, round=0, given=given)
    followers[0].do("class_answer", poll=poll, round=0, given=1)  # while it is open one may change one's mind
    wait_for(lambda: room.presenter.desks and counts(room.presenter.desks[-1]) == [[1, 1]])
    assert (room.presenter.desks[-1]["answered"], room.presenter.desks[-1]["tallies"][0]["unsure"]) == (3, 1)
    assert not any(state["poll"]["tallies"] for one in followers for state in one.states if state["poll"])
    room.presenter.do("class_poll", id=room.id, poll=poll, to="talk")
    assert followers[0].refused("class_answer", poll=poll, round=0, given=0)["code"] == "refused"
    room.presenter.do("class_poll", id=room.id, poll=poll, to="again")
    assert followers[0].refused("class_answer", poll=poll, round=0, given=0)["code"] == "refused"
    mine = followers[0].do("class_answer", poll=poll, round=1, given=0)
    wait_for(lambda: counts(room.presenter.desks[-1]) == [[1, 1], [1, 0]])
    assert not any(one.desks for one in followers)
    assert mine["answers"] == [{"poll": poll, "theater": None, "item": None, "given": [1, 0], "has": [True, True]}]
    room.presenter.do("class_poll", id=room.id, poll=poll, to="shown", right=1)
    wait_for(lambda: followers[1].last()["poll"]["phase"] == "shown")
    shown = followers[1].last()["poll"]
    assert counts(shown) == [[1, 1], [1, 0]]
    assert [tally["unsure"] for tally in shown["tallies"]] == [1, 0] and shown["right"] == 1
    assert followers[0].refused("class_answer", poll=poll, round=1, given=1)["code"] == "refused"


def counts(answer: dict[str, Any]) -> list[list[int]]:
    """Return the number of answers for each option, by round."""
    return [[one["count"] for one in tally["answers"]] for tally in answer["tallies"]]


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("number", [3, 2.5, -1], ["3", float("inf"), True]),
        ("slot", [0, 17], [-1, 2.5, "0"]),
        ("token", [" moon", "月"], ["", " ", "x" * 65, "a\nb", 3]),
        ("choice", [0, 1, None], [2, -1, "a", 0.5]),
    ],
)
def test_invalid_answers_are_refused(room: Room, kind: str, good: list[Any], bad: list[Any]) -> None:
    guest, _ = room.follower()
    poll = ask(room, kind=kind, text="?", options=["a", "b"] if kind == "choice" else [])
    for given in good:
        guest.do("class_answer", poll=poll, round=0, given=given)
    for given in bad:
        assert guest.refused("class_answer", poll=poll, round=0, given=given)["code"] == "bad_request"


def test_a_returning_follower_has_seat_name_and_answer(room: Room) -> None:
    cookie = room.ticket()
    before, entered = room.follower(cookie)
    before.do("class_rename", name="  Ada   Lovelace ")
    poll = ask(room, kind="number", text="?")
    before.do("class_answer", poll=poll, round=0, given=7)
    before.io.disconnect()
    wait_for(lambda: room.seat().get("here") is False)
    _, after = room.follower(cookie)
    assert after["mine"]["seat"] == entered["mine"]["seat"] and after["mine"]["name"] == "Ada Lovelace"
    assert after["mine"]["answers"] == [{"poll": poll, "theater": None, "item": None, "given": [7.0], "has": [True]}]
    assert after["state"]["poll"]["id"] == poll


def test_names(room: Room) -> None:
    first, one = room.follower(language="zh")
    second, two = room.follower()
    assert one["mine"]["name"] != two["mine"]["name"]
    first.do("class_rename", name="<b>月</b>")  # text; the page shows it as text
    assert second.refused("class_rename", name="<b>月</b>")["code"] == "refused"
    for name in ("", " \u0000\u200b ", "x" * 25, "x" * 1_000_000):
        assert second.refused("class_rename", name=name)["code"] == "bad_request", name[:30]


def test_a_class_without_names(make_server: Callable[..., Server]) -> None:
    room = Room(make_server(token=TOKEN), names="none")
    guest, entered = room.follower()
    assert entered["state"]["names"] == "none"
    assert guest.refused("class_rename", name="Ada")["code"] == "refused"


def test_not_sure_is_an_answer_and_no_answer_is_none(room: Room) -> None:
    """An answer in the first round only is not "not sure" in the second."""
    (first, _), (second, _) = room.follower(), room.follower()
    poll = ask(room, kind="number", text="?")
    first.do("class_answer", poll=poll, round=0, given=7)
    room.presenter.do("class_poll", id=room.id, poll=poll, to="talk")
    room.presenter.do("class_poll", id=room.id, poll=poll, to="again")
    mine = first.do("class_lost", lost=True)
    assert mine["answers"] == [
        {"poll": poll, "theater": None, "item": None, "given": [7.0, None], "has": [True, False]}
    ]
    mine = second.do("class_answer", poll=poll, round=1, given=None)
    assert mine["answers"] == [
        {"poll": poll, "theater": None, "item": None, "given": [None, None], "has": [False, True]}
    ]


def test_two_windows_of_one_seat_have_the_same_state(room: Room) -> None:
    cookie = room.ticket()
    (one, _), (other, _) = room.follower(cookie), room.follower(cookie)
    news: list[dict[str, Any]] = []
    other.io.on("class_mine", news.append)
    poll = ask(room, kind="number", text="?")
    one.do("class_answer", poll=poll, round=0, given=7)
    wait_for(lambda: news and news[-1]["answers"][0]["given"] == [7.0])


def test_a_class_whose_presenter_is_gone_is_ended_by_an_owner(room: Room) -> None:
    theater = room.on_stage()
    owner = room.member(headers=OWNER)
    assert owner.refused("class_end", id=room.id)["code"] == "forbidden"  # its presenter is there
    guest, _ = room.follower()
    room.presenter.io.disconnect()
    wait_for(lambda: not room.server.app.extensions["kvtheater.classrooms"].get(room.id).presenters)
    assert guest.refused("class_end", id=room.id)["code"] == "forbidden"
    owner.do("class_end", id=room.id)
    owner.do("reset", theater=theater)  # its runs are anybody's again


def test_a_guests_steps_are_under_way_until_they_are_done(room: Room) -> None:
    """Any number of steps may be requested at once; no thread waits for them, and all are counted."""
    theater = room.on_stage()
    guest, entered = room.follower()
    room.presenter.do("class_hand", id=room.id, seat=entered["mine"]["seat"])
    guest.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 200})
    room.server.model.step_seconds = 0.05
    answers: list[dict[str, Any]] = []
    for _ in range(12):
        guest.io.emit("step", {"theater": theater, "count": 20}, callback=answers.append)
    wait_for(lambda: len(answers) == 12, seconds=30)
    assert sum(answer["ok"] for answer in answers) == MAX_PER_GUEST
    assert {answer["error"]["code"] for answer in answers if not answer["ok"]} == {"busy"}
    guest.do("step", theater=theater)  # they are done, and one may go on


def test_only_a_remote_may_press(room: Room) -> None:
    guest, entered = room.follower()
    assert guest.refused("class_press", id=room.id, key="next")["code"] == "forbidden"
    guest.do("class_wish", wish="remote")
    wait_for(lambda: room.seat().get("wish") == "remote")
    room.presenter.do("class_remote", id=room.id, seat=entered["mine"]["seat"], allowed=True)
    guest.do("class_press", id=room.id, key="next")
    wait_for(lambda: room.presenter.pressed == [{"id": room.id, "key": "next", "lesson": None}])
    assert not guest.pressed


def test_the_presenter_chooses_a_lesson_for_the_page_that_drives(room: Room) -> None:
    """A follower that drives cannot open a lesson; opening one returns control to the presenter."""
    guest, entered = room.follower()
    room.presenter.do("class_hand", id=room.id, seat=entered["mine"]["seat"])
    assert guest.refused("class_lesson", id=room.id, lesson="pages")["code"] == "forbidden"
    room.presenter.do("class_lesson", id=room.id, lesson="pages")
    wait_for(lambda: room.presenter.pressed == [{"id": room.id, "key": None, "lesson": "pages"}])
    wait_for(lambda: room.presenter.states and room.presenter.states[-1]["driver"] is None)
    assert not guest.pressed


def test_lost_followers_are_marked_on_the_presenters_timeline(room: Room) -> None:
    theater = room.on_stage()
    room.presenter.do("submit", theater=theater, prompts=[{"text": "abc"}])
    guest, _ = room.follower()
    assert guest.do("class_lost", lost=True)["lost"]
    guest.do("class_lost", lost=True)  # pressed twice is one mark
    wait_for(lambda: room.presenter.desks and room.presenter.desks[-1]["lost"])
    (mark,) = room.presenter.desks[-1]["lost"]
    assert mark[0] >= 0 and mark[1] == 0  # the record that was the newest
    assert not guest.do("class_lost", lost=False)["lost"]


def test_a_removed_follower_cannot_return(room: Room) -> None:
    theater = room.on_stage()
    guest, entered = room.follower()
    guest.do("join", theater=theater)
    room.presenter.do("class_send_away", id=room.id, seat=entered["mine"]["seat"])
    assert guest.refused("join", theater=theater)["code"] == "refused"
    assert guest.refused("class_lost", lost=True)["code"] == "refused"
    assert guest.refused("class_enter", language="en")["code"] == "refused"  # nor comes it back by the same pass


def test_a_flood_of_guesses_shuts_out_its_own_address_alone(room: Room) -> None:
    """A proxy on this machine reports two addresses, of which one guesses until it is blocked."""
    code = room.presenting["code"]
    guesser, other = ({"X-Forwarded-For": f"10.0.0.{i}"} for i in (1, 2))
    statuses = {room.get("/j/zzzzzz", **guesser).status for _ in range(BURST + 30)}
    assert statuses == {404, 409}
    assert room.get(f"/j/{code}", **guesser).status == 409
    assert room.get(f"/j/{code}", **other).status == 303


def test_guesses_are_limited_and_block_no_client_with_the_link(room: Room) -> None:
    statuses = [404]
    while statuses[-1] == 404 and len(statuses) < 2000:  # each second allows another one, however slow the machine is
        statuses.append(room.get(f"/j/22222{chr(97 + len(statuses) % 20)}").status)
    assert statuses[-1] == 409 and len(statuses) > 600
    assert room.get(f"/j/{room.presenting['code']}").status == 409  # says nothing about the code
    assert room.get(room.presenting["join"]).status == 303
