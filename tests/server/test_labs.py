"""Labs of followers beside the class's run: assignment, queue, limits, and end."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from app.classroom import labs as module
from app.classroom.labs import LOG_BYTES, OVERHEAD_BYTES
from app.classroom.polls import LessonQuestion
from tests.server.classes import OWNER, TOKEN, Member, Room
from tests.server.conftest import Server, wait_for
from tests.server.fake import KV_BYTES

POOL = 256 * 4 * KV_BYTES  # of the test's server


class LabRoom(Room):
    """Class whose server has memory for that many labs, with a run on stage and labs open."""

    def __init__(self, server: Server, room_for: int) -> None:
        super().__init__(server)
        server.model.free_bytes = 2 * room_for * (POOL + 2 * LOG_BYTES + OVERHEAD_BYTES)
        self.theater = self.on_stage()
        self.presenter.do("submit", theater=self.theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 8})
        self.presenter.do("step", theater=self.theater, count=3)  # so that a step has been measured
        self.presenter.do("class_labs", id=self.id, open=True)

    def desk(self) -> dict[str, Any]:
        found = self.presenter.do("class_present", id=self.id, secret=self.secret, base=self.server.url)
        return dict(found["desk"])

    def reclaim_idle(self) -> None:
        """Run the server's periodic check."""
        labs = self.server.app.extensions["kvtheater.labs"]
        classrooms = self.server.app.extensions["kvtheater.classrooms"]
        labs.reclaim_idle(classrooms.get(self.id))


@pytest.fixture
def make_room(make_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch) -> Callable[[int], LabRoom]:
    monkeypatch.setattr(module, "INTERVAL", 3600.0)
    return lambda room_for: LabRoom(make_server(token=TOKEN, max_theaters=4), room_for)


def mine(member: Member) -> dict[str, Any]:
    return member.mine[-1] if member.mine else {}


def test_a_lab_belongs_to_its_follower(make_room: Callable[[int], LabRoom]) -> None:
    """A lab has the class's settings; other participants neither see nor command it, an owner does both."""
    room = make_room(2)
    one, other = room.follower()[0], room.follower()[0]
    lab = one.do("class_lab", open=True)["lab"]
    assert lab and one.do("class_lab", open=True)["lab"] == lab
    assert one.do("join", theater=lab)["num_records"] == 0
    one.do("submit", theater=lab, prompts=[{"text": "xyz"}], sampling={"max_tokens": 4})
    one.do("step", theater=lab, count=2)
    wait_for(lambda: len(one.records()) == 3)
    assert room.server.theaters.get(lab).config == room.server.theaters.get(room.theater).config
    for event in ("join", "step", "reset"):
        assert other.refused(event, theater=lab)["code"] == "forbidden"
    assert one.refused("step", theater=room.theater)["code"] == "forbidden"
    room.presenter.do("join", theater=lab)
    assert room.desk()["labs"] == 1
    one.do("class_lab", open=False)
    assert one.refused("step", theater=lab)["code"] == "forbidden"
    assert len(room.server.theaters.all()) == 1


def test_the_bound_and_where_it_comes_from(make_room: Callable[[int], LabRoom]) -> None:
    desk = make_room(3).desk()
    assert desk["labs_most"] == 3
    assert desk["labs_why"]["by"] == "memory"
    assert desk["labs_why"]["lab_bytes"] == POOL + 2 * LOG_BYTES + OVERHEAD_BYTES


def test_labs_are_queued_in_order(make_room: Callable[[int], LabRoom]) -> None:
    room = make_room(1)
    first, second, third = (room.follower()[0] for _ in range(3))
    lab = first.do("class_lab", open=True)["lab"]
    assert second.do("class_lab", open=True)["queue"] == 0
    answer = third.do("class_lab", open=True)
    assert answer["queue"] == 1 and answer["lab"] is None
    desk = room.desk()
    assert (desk["labs"], desk["labs_most"], desk["waiting"]) == (1, 1, 2)
    first.do("class_lab", open=False)
    wait_for(lambda: mine(second).get("lab"))
    assert mine(second)["lab"] != lab and mine(second)["queue"] is None
    wait_for(lambda: mine(third).get("queue") == 0)
    second.do("class_lab", open=False)
    wait_for(lambda: mine(third).get("lab"))


def test_a_freed_lab_goes_to_the_next_in_the_queue(
    make_room: Callable[[int], LabRoom], monkeypatch: pytest.MonkeyPatch
) -> None:
    room = make_room(1)
    first, second = room.follower()[0], room.follower()[0]
    lab = first.do("class_lab", open=True)["lab"]
    first.io.disconnect()
    wait_for(lambda: not room.seat().get("here", True))
    room.reclaim_idle()
    assert second.do("class_lab", open=True)["queue"] == 0  # a minute has not passed
    monkeypatch.setattr(module, "LEFT_SECONDS", 0.0)
    room.reclaim_idle()
    wait_for(lambda: mine(second).get("lab"))
    assert mine(second)["lab"] != lab


def test_a_disconnected_seat_leaves_the_queue(
    make_room: Callable[[int], LabRoom], monkeypatch: pytest.MonkeyPatch
) -> None:
    room = make_room(1)
    first, second, third = (room.follower()[0] for _ in range(3))
    for one in (first, second, third):
        one.do("class_lab", open=True)
    second.io.disconnect()
    wait_for(lambda: not room.desk()["seats"][1]["here"])
    monkeypatch.setattr(module, "LEFT_SECONDS", 0.0)
    room.reclaim_idle()
    assert room.desk()["waiting"] == 1
    first.do("class_lab", open=False)
    wait_for(lambda: mine(third).get("lab"))


def test_an_idle_lab_goes_to_the_queue_and_a_working_one_does_not(
    make_room: Callable[[int], LabRoom], monkeypatch: pytest.MonkeyPatch
) -> None:
    room = make_room(1)
    first, second = room.follower()[0], room.follower()[0]
    lab = first.do("class_lab", open=True)["lab"]
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.0)
    room.reclaim_idle()  # the queue is empty
    first.do("submit", theater=lab, prompts=[{"text": "xyz"}], sampling={"max_tokens": 256})
    first.do("run", theater=lab, speed=0.01)
    second.do("class_lab", open=True)
    room.reclaim_idle()
    assert room.server.theaters.get(lab)
    first.do("pause", theater=lab)
    room.reclaim_idle()
    wait_for(lambda: mine(second).get("lab"))
    wait_for(lambda: mine(first).get("lab", lab) is None)


def test_labs_end_with_the_class_and_when_the_presenter_says_so(make_room: Callable[[int], LabRoom]) -> None:
    room = make_room(1)
    (one, entered), (other, _) = room.follower(), room.follower()
    assert entered["state"]["labs"]
    one.do("class_lab", open=True)
    assert one.refused("class_labs", id=room.id, open=False)["code"] == "forbidden"
    assert other.do("class_lab", open=True)["queue"] == 0
    room.presenter.do("class_labs", id=room.id, open=False)
    wait_for(lambda: mine(one).get("lab", "") is None)
    wait_for(lambda: mine(other).get("queue", 0) is None)
    assert other.refused("class_lab", open=True)["code"] == "refused"
    room.presenter.do("class_labs", id=room.id, open=True)
    other.do("class_lab", open=True)
    room.presenter.do("class_end", id=room.id)
    assert len(room.server.theaters.all()) == 1


def test_a_removed_follower_has_no_lab(make_room: Callable[[int], LabRoom]) -> None:
    room = make_room(1)
    one, entered = room.follower()
    lab = one.do("class_lab", open=True)["lab"]
    room.presenter.do("class_send_away", id=room.id, seat=entered["mine"]["seat"])
    assert one.refused("step", theater=lab)["code"] == "forbidden"
    assert len(room.server.theaters.all()) == 1


def test_labs_do_not_count_as_runs_of_owners(make_room: Callable[[int], LabRoom]) -> None:
    room = make_room(6)
    for _ in range(6):
        assert room.follower()[0].do("class_lab", open=True)["lab"]
    owner = room.member(headers=OWNER)
    for _ in range(3):
        owner.do("create")  # with the class's run that is all four
    assert owner.refused("create")["code"] == "too_many_theaters"


def test_limits_of_a_guests_run(make_room: Callable[[int], LabRoom]) -> None:
    room = make_room(1)
    one, _ = room.follower()
    lab = one.do("class_lab", open=True)["lab"]
    good = {"max_tokens": 16}
    for prompts, sampling in (
        ([{"text": "a"}] * 9, good),
        ([{"text": "a" * 4097}], good),
        ([{"text": "a"}], {"max_tokens": 257}),
        ([{"text": "a"}], {"max_tokens": None}),
        ([{"text": "a"}], {"max_tokens": 16, "n": 9}),
    ):
        assert one.refused("submit", theater=lab, prompts=prompts, sampling=sampling)["code"] == "refused"
    one.do("submit", theater=lab, prompts=[{"text": "a"}] * 8, sampling={"max_tokens": 256})
    one.do("configure", theater=lab, config={"num_blocks": 128, "block_size": 8})
    assert one.refused("configure", theater=lab, config={"num_blocks": 257, "block_size": 4})["code"] == "refused"
    assert one.refused("configure", theater=lab, config={"num_blocks": 257, "block_size": 8})["code"] == "refused"
    one.do("configure", theater=lab, config={"num_blocks": 256, "block_size": 4})
    assert one.refused("configure", theater=lab, config={}, model="other")["code"] == "refused"
    assert one.refused("record", theater=lab)["code"] == "forbidden"
    assert one.refused("fork", theater=lab, at=0, change=None)["code"] == "forbidden"


@pytest.mark.slow
def test_the_classes_run_goes_on_beside_labs_at_full_speed(make_room: Callable[[int], LabRoom]) -> None:
    """At most one step of a lab runs between two steps of the class's run, counted by turns."""
    room = make_room(4)
    room.server.model.step_seconds = 0.005
    followers = [room.follower()[0] for _ in range(4)]
    for one in followers:
        lab = one.do("class_lab", open=True)["lab"]
        one.do("submit", theater=lab, prompts=[{"text": "xyz"}], sampling={"max_tokens": 200})
        one.do("run", theater=lab, speed=0)
    room.presenter.do("submit", theater=room.theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 60})

    def lab_steps() -> int:
        theaters = room.server.theaters.all()
        return sum(len(theater.run.log) for theater in theaters if theater.is_lab)

    before = lab_steps()
    room.presenter.do("step", theater=room.theater, count=40)
    assert 0 < lab_steps() - before <= 41


def test_labs_pause_during_a_question(make_room: Callable[[int], LabRoom]) -> None:
    """A lab with the same prompts would reveal the answer, so labs are paused until it is shown. Their status says that
    they are labs.
    """
    room = make_room(1)
    one = room.follower()[0]
    lab = one.do("class_lab", open=True)["lab"]
    one.do("submit", theater=lab, prompts=[{"text": "abc"}], sampling={"max_tokens": 200})
    one.do("run", theater=lab, speed=5)
    found = room.server.app.extensions["kvtheater.classrooms"].get(room.id)
    found.ask("lesson", "", [], LessonQuestion(room.theater, 0, 0, "Which?", ["This", "That"]))
    room.server.app.extensions["kvtheater.labs"].pause_all(found)
    assert room.server.theaters.get(lab).status()["mode"] == "paused"
    for event, more in (("step", {}), ("run", {"speed": 1}), ("submit", {"prompts": [{"text": "abc"}]})):
        error = one.refused(event, theater=lab, **more)
        assert error["code"] == "refused" and "答案" in error["said"]["zh"]
    found.set_poll_phase(0, "shown", 0)
    one.do("step", theater=lab)
    listed = room.get("/api/theaters", **OWNER)
    labs = {one["theater"]: one["is_lab"] for one in json.loads(listed.read())["theaters"]}
    assert labs == {lab: True, room.theater: False}


def test_a_lab_that_cannot_be_made_keeps_no_place(
    make_room: Callable[[int], LabRoom], monkeypatch: pytest.MonkeyPatch
) -> None:
    room = make_room(1)
    one = room.follower()[0]
    made = room.server.theaters.create_lab

    def fails(*_: Any) -> Any:
        raise MemoryError("no thread can be started")

    monkeypatch.setattr(room.server.theaters, "create_lab", fails)
    assert one.refused("class_lab", open=True)["code"] == "internal"
    monkeypatch.setattr(room.server.theaters, "create_lab", made)
    assert one.do("class_lab", open=True)["lab"]
