"""Lessons over the wire: no data that answers a question is sent before the answer."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import requests

from tests.server.conftest import Client, Server, wait_for

LESSON = "not-yet"


def opened(viewer: Client, **more: Any) -> dict[str, Any]:
    """Open the lesson, and join its session."""
    lesson = viewer.do("lesson_open", lesson=LESSON, language="zh", **more)
    viewer.do("join", theater=lesson["theater"])
    return lesson


def go(viewer: Client, lesson: dict[str, Any]) -> dict[str, Any]:
    return viewer.do("lesson_go", theater=lesson["theater"], item=lesson["progress"]["at"])


def to_question(viewer: Client, lesson: dict[str, Any]) -> dict[str, Any]:
    while lesson["items"][-1]["kind"] != "ask":
        lesson = go(viewer, lesson)
    return lesson


def everything(server: str, viewer: Client, theater: str) -> tuple[int, bytes]:
    """Return the number of records mentioned by anything that is served, and all its bytes."""
    batches = [batch for batch in viewer.batches if batch["theater"] == theater]
    sent = [json.dumps(viewer.statuses).encode(), *(record for batch in batches for record in batch["records"])]
    most = max([0, *(batch["first"] + len(batch["records"]) for batch in batches)])
    most = max([most, *(s["num_records"] for s in viewer.statuses if s["theater"] == theater)])
    joined = viewer.do("join", theater=theater)
    read = viewer.do("read", theater=theater, **{"from": 0, "to": 256, "captures": True})
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


def test_answers_are_hidden_until_given(live_server: str, viewer: Client) -> None:
    lesson = to_question(viewer, opened(viewer))
    theater = lesson["theater"]
    while True:
        question = lesson["items"][-1]
        shown = [item["moment"]["records"] for item in lesson["items"] if item["kind"] == "do" and item["moment"]]
        before = max(shown, default=_shown(viewer, theater))
        assert question["right"] is None and question["evidence"] is None
        assert all(option.keys() == question["options"][0].keys() for option in question["options"])
        placed = [option["place"]["kind"] for option in question["options"] if option["place"]]
        assert len(placed) != 1 and len(set(placed)) <= 1, "a place of its own would give an answer away"
        assert everything(live_server, viewer, theater)[0] == before
        lesson = viewer.do("lesson_answer", theater=theater, item=question["index"], given=None)
        answered = lesson["items"][0]
        assert answered["over"] and answered["right"] is not None
        if lesson["items"][-1]["kind"] != "ask":
            break
    evidence = answered["evidence"]["record"]
    assert everything(live_server, viewer, theater)[0] <= evidence, "the record comes with the action"
    go(viewer, lesson)
    wait_for(lambda: everything(live_server, viewer, theater)[0] > evidence, "the record")


def _shown(viewer: Client, theater: str) -> int:
    return int(viewer.do("join", theater=theater)["num_records"])


def test_the_run_belongs_to_the_lesson_until_it_ends(live_server: str, viewer: Client) -> None:
    lesson = to_question(viewer, opened(viewer))
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
        assert "belongs to a lesson" in viewer.refused(event, theater=theater, **more)["message"]
    assert "not answered yet" in viewer.refused("lesson_go", theater=theater, item=lesson["progress"]["at"])["message"]
    while not lesson["progress"]["over"]:
        if lesson["items"][-1]["kind"] == "ask":
            lesson = viewer.do("lesson_answer", theater=theater, item=lesson["progress"]["at"], given=None)
        else:
            lesson = go(viewer, lesson)
    viewer.do("submit", theater=theater, prompts=[{"text": "春"}])
    viewer.do("step", theater=theater)


def test_a_lesson_resumes_on_its_run_or_a_new_one(viewer: Client) -> None:
    lesson = to_question(viewer, opened(viewer))
    at = lesson["progress"]["at"]
    lesson = viewer.do("lesson_answer", theater=lesson["theater"], item=at, given=0)
    again = viewer.do("lesson_open", lesson=LESSON, language="zh", theater=lesson["theater"])
    assert again["theater"] == lesson["theater"] and again["progress"] == lesson["progress"]
    question = next(item for item in again["items"] if item["index"] == at)
    assert question["given"] == [0]
    new = viewer.do("lesson_open", lesson=LESSON, language="zh", at=at, answers={str(at): [0]})
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


def test_two_lessons_do_not_disturb_each_other(viewer: Client) -> None:
    one, two = (to_question(viewer, viewer.do("lesson_open", lesson=LESSON, language="en")) for _ in range(2))
    assert one["theater"] != two["theater"]
    at = one["progress"]["at"]
    viewer.do("lesson_answer", theater=one["theater"], item=at, given=None)
    message = viewer.do("lesson_open", lesson=LESSON, language="en", theater=two["theater"])
    assert message["progress"]["at"] == at and message["items"][-1]["given"] == []


def test_unknown_lessons_are_refused(viewer: Client, live_server: str) -> None:
    assert "no lesson 'none'" in viewer.refused("lesson_open", lesson="none", language="en")["message"]
    assert "no longer exists" in viewer.refused("lesson_go", theater="nowhere", item=0)["message"]
    assert (
        "block_sise"
        in viewer.refused("lesson_open", lesson=LESSON, language="en", changes={"block_sise": 3})["message"]
    )
    listed = requests.get(f"{live_server}/api/lessons").json()
    card = next(card for card in listed["lessons"] if card["id"] == LESSON)
    assert card["refused"] is None and card["num_questions"] > 3 and listed["faults"] == []


def test_an_empty_order_is_refused_without_effect(viewer: Client) -> None:
    lesson = viewer.do("lesson_open", lesson="why-did-it-miss", language="en")
    theater = lesson["theater"]
    while lesson["items"][-1]["kind"] != "mend":
        if lesson["items"][-1]["kind"] == "ask":
            lesson = viewer.do("lesson_answer", theater=theater, item=lesson["progress"]["at"], given=None)
        else:
            lesson = go(viewer, lesson)
    at, move = lesson["progress"]["at"], {"part": "Time", "before": None}
    before = viewer.do("lesson_look", theater=theater, language="en")
    shown = viewer.do("join", theater=theater)["num_records"]
    hostile: list[Any] = [
        "Time",
        {"moves": []},
        {"moves": [{"part": "Time", "before": "Time"}]},
        {"moves": [move] * 10_000},
        [{"kind": "free", "block": 0, "seq": 0}],
        3,
    ]
    for given in hostile:
        assert len(viewer.refused("lesson_answer", theater=theater, item=at, given=given)["message"]) > 10, given
        after = viewer.do("lesson_look", theater=theater, language="en")
        assert (after["items"], after["progress"]) == (before["items"], before["progress"]), given
        assert viewer.do("join", theater=theater)["num_records"] == shown
    lesson = viewer.do("lesson_answer", theater=theater, item=at, given={"moves": [move]})
    assert len(lesson["items"][0]["given"]) == 1 and not lesson["items"][0]["over"]


def test_texts_are_in_the_readers_language_with_the_numbers_of_the_run(viewer: Client) -> None:
    """A class's phones read the presenter's run, whose prompts and numbers stay those of its own language."""
    lesson = viewer.do("lesson_open", lesson="pages", language="en")
    while len(figures_of(lesson, "wasted")) < 1:
        if lesson["items"][-1]["kind"] == "ask":
            viewer.do("lesson_answer", theater=lesson["theater"], item=lesson["progress"]["at"], given=None)
        else:
            go(viewer, lesson)
        lesson = viewer.do("lesson_look", theater=lesson["theater"], language="en")
    read = {code: viewer.do("lesson_look", theater=lesson["theater"], language=code) for code in ("en", "zh", "fr")}
    assert read["en"]["title"] == read["fr"]["title"] == "From one piece to pages"
    assert read["zh"]["title"] == "从一整块到一页一页" and read["zh"]["language"] == "zh"
    assert figures_of(read["en"], "wasted") == figures_of(read["fr"], "wasted") == ["168"]
    assert figures_of(read["zh"], "wasted") == ["168"]  # the lesson's Chinese run has 170
    assert figures_of(read["zh"], "running") == ["两"]  # as it is written, where it is the same
    assert read["zh"]["progress"] == read["en"]["progress"]


def figures_of(lesson: dict[str, Any], name: str) -> list[str]:
    """The numbers that a lesson's texts show for a figure so far."""

    def found(nodes: list[Any]) -> list[str]:
        inside = [node for node in nodes if not isinstance(node, str)]
        own = [node["children"][0] for node in inside if node.get("figure") == name]
        return own + [text for node in inside for text in found(node["children"])]

    return [text for item in lesson["items"] if item["kind"] == "text" for text in found(item["blocks"])]


def test_the_driver_cannot_reveal_the_classs_question(live_server: str, viewer: Client) -> None:
    """The driver's own answer and going on reveal nothing; showing the lesson's question to all does."""
    opened_class = viewer.do("class_open", title="", names="none", base=live_server)
    class_id = opened_class["presenting"]["state"]["id"]
    lesson = to_question(viewer, opened(viewer))
    theater = lesson["theater"]
    viewer.do("class_cast", id=class_id, theater=theater, view={})
    viewer.do("class_ask", id=class_id, kind="lesson")
    at = lesson["progress"]["at"]
    assert viewer.refused("lesson_answer", theater=theater, item=at, given=None)["code"] == "refused"
    assert viewer.refused("lesson_go", theater=theater, item=at)["code"] == "refused"
    looked = viewer.do("lesson_look", theater=theater, language="en")
    assert looked["items"][-1]["kind"] == "ask" and looked["items"][-1]["right"] is None
    viewer.do("class_poll", id=class_id, poll=0, to="shown")
    looked = viewer.do("lesson_look", theater=theater, language="en")
    question = next(item for item in looked["items"] if item["index"] == at)
    assert question["over"] and question["right"] is not None
    viewer.do("class_end", id=class_id)
