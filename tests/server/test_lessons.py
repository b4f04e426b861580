"""Lessons over the wire: no data that answers a question is sent before the answer."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests

from tests.server.conftest import Client, Server, wait_for

LESSON = "not-yet"


@pytest.fixture
def learner(live_server: str) -> Iterator[Client]:
    client = Client(live_server)
    yield client
    client.io.disconnect()


def opened(learner: Client, **more: Any) -> dict[str, Any]:
    """Open the lesson, and join its session."""
    lesson = learner.do("lesson_open", lesson=LESSON, language="zh", **more)
    learner.do("join", theater=lesson["theater"])
    return lesson


def go(learner: Client, lesson: dict[str, Any]) -> dict[str, Any]:
    return learner.do("lesson_go", theater=lesson["theater"], item=lesson["progress"]["at"])


def to_question(learner: Client, lesson: dict[str, Any]) -> dict[str, Any]:
    while lesson["items"][-1]["kind"] != "ask":
        lesson = go(learner, lesson)
    return lesson


def everything(server: str, learner: Client, theater: str) -> tuple[int, bytes]:
    """Return the number of records mentioned by anything that is served, and all its bytes."""
    batches = [batch for batch in learner.batches if batch["theater"] == theater]
    sent = [json.dumps(learner.statuses).encode(), *(record for batch in batches for record in batch["records"])]
    most = max([0, *(batch["first"] + len(batch["records"]) for batch in batches)])
    most = max([most, *(s["num_records"] for s in learner.statuses if s["theater"] == theater)])
    joined = learner.do("join", theater=theater)
    read = learner.do("read", theater=theater, **{"from": 0, "to": 256, "captures": True})
    most = max(most, joined["num_records"], len(read["records"]), joined["status"]["num_records"])
    sent += [msgspec.msgpack.encode(read), json.dumps(joined["status"]).encode()]
    base = f"{server}/api/theaters/{theater}"
    trace = requests.get(f"{base}/trace").content
    sent += [trace, requests.get(f"{base}/export.html").content]
    listed = next(t for t in requests.get(f"{server}/api/theaters").json()["theaters"] if t["theater"] == theater)
    most = max(most, listed["summary"]["num_records"], listed["status"]["num_records"])
    sent.append(json.dumps(listed).encode())
    index = 0
    while (answer := requests.get(f"{base}/records/{index}")).ok:
        sent += [answer.content, requests.get(f"{base}/records/{index}/capture").content]
        index += 1
    return max(most, index), b"".join(sent)


def test_no_answer_before_it_is_given(live_server: str, learner: Client) -> None:
    lesson = to_question(learner, opened(learner))
    theater = lesson["theater"]
    while True:
        question = lesson["items"][-1]
        shown = [item["moment"]["records"] for item in lesson["items"] if item["kind"] == "do" and item["moment"]]
        before = max(shown, default=_shown(learner, theater))
        assert question["right"] is None and question["evidence"] is None
        assert all(option.keys() == question["options"][0].keys() for option in question["options"])
        placed = [option["place"]["kind"] for option in question["options"] if option["place"]]
        assert len(placed) != 1 and len(set(placed)) <= 1, "a place of its own would give an answer away"
        assert everything(live_server, learner, theater)[0] == before
        lesson = learner.do("lesson_answer", theater=theater, item=question["index"], given=None)
        answered = lesson["items"][0]
        assert answered["over"] and answered["right"] is not None
        if lesson["items"][-1]["kind"] != "ask":
            break
    evidence = answered["evidence"]["record"]
    assert everything(live_server, learner, theater)[0] <= evidence, "the record comes with the action"
    go(learner, lesson)
    wait_for(lambda: everything(live_server, learner, theater)[0] > evidence, "the record")


def _shown(learner: Client, theater: str) -> int:
    return int(learner.do("join", theater=theater)["num_records"])


def test_the_run_is_the_lessons_until_the_lesson_is_over(live_server: str, learner: Client) -> None:
    lesson = to_question(learner, opened(learner))
    theater = lesson["theater"]
    commands: dict[str, dict[str, Any]] = {
        "step": {},
        "prefill": {},
        "run": {"speed": 0},
        "reset": {},
        "configure": {"config": {}},
        "submit": {"prompts": [{"text": "x"}]},
        "abort": {"request_id": "0"},
        "record": {},
        "recompute": {"seq_id": 0, "layer": 0},
    }
    for event, more in commands.items():
        assert "belongs to a lesson" in learner.refused(event, theater=theater, **more)["message"]
    assert "no answer yet" in learner.refused("lesson_go", theater=theater, item=lesson["progress"]["at"])["message"]
    while not lesson["progress"]["over"]:
        if lesson["items"][-1]["kind"] == "ask":
            lesson = learner.do("lesson_answer", theater=theater, item=lesson["progress"]["at"], given=None)
        else:
            lesson = go(learner, lesson)
    learner.do("submit", theater=theater, prompts=[{"text": "春"}])
    learner.do("step", theater=theater)


def test_one_goes_on_where_one_was_on_the_same_run_and_on_a_new_one(learner: Client) -> None:
    lesson = to_question(learner, opened(learner))
    at = lesson["progress"]["at"]
    lesson = learner.do("lesson_answer", theater=lesson["theater"], item=at, given=0)
    again = learner.do("lesson_open", lesson=LESSON, language="zh", theater=lesson["theater"])
    assert again["theater"] == lesson["theater"] and again["progress"] == lesson["progress"]
    question = next(item for item in again["items"] if item["index"] == at)
    assert question["given"] == [0]
    new = learner.do("lesson_open", lesson=LESSON, language="zh", at=at, answers={str(at): [0]})
    assert new["theater"] != lesson["theater"] and new["progress"] == again["progress"]
    assert [item["kind"] for item in new["items"]] == [item["kind"] for item in again["items"]]
    assert next(item for item in new["items"] if item["index"] == at)["given"] == [0]


def test_a_lessons_prompt_is_seen_as_one_that_is_submitted(make_server: Callable[..., Server], tmp_path: Path) -> None:
    text = """+++
id = "seen"
minutes = 1
model = "fake"
title = { en = "Seen" }
prompts = { en = ["a，b"] }
+++
## first
do: submit
"""
    (tmp_path / "seen.md").write_text(text, encoding="utf-8")
    server = make_server(lessons=tmp_path)
    client = server.client()
    lesson = client.do("lesson_open", lesson="seen", language="en")
    client.do("join", theater=lesson["theater"])
    client.do("lesson_go", theater=lesson["theater"], item=0)
    wait_for(lambda: client.batches, "the submission")
    record = msgspec.msgpack.decode(client.batches[0]["records"][0])
    assert bytes(record["ops"][0]["prompt_token_ids"]) == b"a,b"


def test_two_lessons_do_not_disturb_each_other(learner: Client) -> None:
    one, two = (to_question(learner, learner.do("lesson_open", lesson=LESSON, language="en")) for _ in range(2))
    assert one["theater"] != two["theater"]
    at = one["progress"]["at"]
    learner.do("lesson_answer", theater=one["theater"], item=at, given=None)
    message = learner.do("lesson_open", lesson=LESSON, language="en", theater=two["theater"])
    assert message["progress"]["at"] == at and message["items"][-1]["given"] == []


def test_what_there_is_no_lesson_for_is_said(learner: Client, live_server: str) -> None:
    assert "no lesson 'none'" in learner.refused("lesson_open", lesson="none", language="en")["message"]
    assert "gone" in learner.refused("lesson_go", theater="nowhere", item=0)["message"]
    assert (
        "block_sise"
        in learner.refused("lesson_open", lesson=LESSON, language="en", changes={"block_sise": 3})["message"]
    )
    listed = requests.get(f"{live_server}/api/lessons").json()
    card = next(card for card in listed["lessons"] if card["id"] == LESSON)
    assert card["refused"] is None and card["num_questions"] > 3 and listed["faults"] == []


def test_a_mending_that_is_none_is_refused_in_a_sentence_and_changes_nothing(learner: Client) -> None:
    lesson = learner.do("lesson_open", lesson="why-did-it-miss", language="en")
    theater = lesson["theater"]
    while lesson["items"][-1]["kind"] != "mend":
        if lesson["items"][-1]["kind"] == "ask":
            lesson = learner.do("lesson_answer", theater=theater, item=lesson["progress"]["at"], given=None)
        else:
            lesson = go(learner, lesson)
    at, move = lesson["progress"]["at"], {"part": "Time", "before": None}
    before = learner.do("lesson_look", theater=theater, language="en")
    shown = learner.do("join", theater=theater)["num_records"]
    hostile: list[Any] = [
        "Time",
        {"moves": []},
        {"moves": [{"part": "Time", "before": "Time"}]},
        {"moves": [move] * 10_000},
        [{"kind": "free", "block": 0, "seq": 0}],
        3,
    ]
    for given in hostile:
        assert len(learner.refused("lesson_answer", theater=theater, item=at, given=given)["message"]) > 10, given
        after = learner.do("lesson_look", theater=theater, language="en")
        assert (after["items"], after["progress"]) == (before["items"], before["progress"]), given
        assert learner.do("join", theater=theater)["num_records"] == shown
    lesson = learner.do("lesson_answer", theater=theater, item=at, given={"moves": [move]})
    assert len(lesson["items"][0]["given"]) == 1 and not lesson["items"][0]["over"]


def test_a_class_that_is_asked_is_not_answered_for(live_server: str, learner: Client) -> None:
    """The driver's own answer and going on reveal nothing; showing the lesson's question to all does."""
    opened_class = learner.do("class_open", title="", names="none", base=live_server)
    class_id = opened_class["presenting"]["state"]["id"]
    lesson = to_question(learner, opened(learner))
    theater = lesson["theater"]
    learner.do("class_cast", id=class_id, theater=theater, view={})
    learner.do("class_ask", id=class_id, kind="lesson")
    at = lesson["progress"]["at"]
    assert learner.refused("lesson_answer", theater=theater, item=at, given=None)["code"] == "refused"
    assert learner.refused("lesson_go", theater=theater, item=at)["code"] == "refused"
    looked = learner.do("lesson_look", theater=theater, language="en")
    assert looked["items"][-1]["kind"] == "ask" and looked["items"][-1]["right"] is None
    learner.do("class_poll", id=class_id, poll=0, to="shown")
    looked = learner.do("lesson_look", theater=theater, language="en")
    question = next(item for item in looked["items"] if item["index"] == at)
    assert question["over"] and question["right"] is not None
    learner.do("class_end", id=class_id)
