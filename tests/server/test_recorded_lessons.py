"""Recorded lessons over the wire, from a server without a model: records are sent after the questions are answered."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests

from app.cli import main
from app.ground.settings import ServerSettings
from app.lessons.transcript import read_transcript, run_name, transcript_name
from app.models.model_entry import ModelEntry
from app.models.registry import Models
from app.server.application import create_app
from app.server.listener import Listener, bind
from engine.trace.log import TraceReader
from tests.server.conftest import Client

LESSON = "not-yet"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("recorded")
    assert main(["lesson", "record", LESSON, "pages", "-o", str(found)]) == 0
    return found


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """Yield the address of a server that shows recordings only."""
    listener = Listener(
        create_app(Models(ModelEntry(None)), ServerSettings(recorded_lessons=folder)), bind("127.0.0.1", 0)
    )
    yield f"http://127.0.0.1:{listener.port}"
    listener.close()


@pytest.fixture
def learner(url: str) -> Iterator[Client]:
    client = Client(url)
    yield client
    client.io.disconnect()


def retell(learner: Client, at: int, answers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return learner.do("lesson_retell", **{"lesson": LESSON, "language": "zh", "at": at, "answers": answers} | more)


def test_answers_are_hidden_until_given(learner: Client, url: str, folder: Path) -> None:
    """A client that requests everything gets the items before the first open question, and nothing else contains it."""
    transcript = read_transcript(folder / transcript_name(LESSON, "zh"))
    answers: dict[str, Any] = {}
    with TraceReader(folder / run_name(LESSON, "zh", 0)) as log:
        records = [log.record_bytes(index) for index in range(len(log))]
        captures = [log.capture_bytes(index) for index in range(len(log))]
    for index in map(int, transcript.keys):
        retold = retell(learner, 10_000, answers)
        assert retold["progress"]["at"] == index and retold["items"][-1]["index"] == index
        assert retold["items"][-1]["right"] is None and retold["items"][-1]["evidence"] is None
        everything = msgspec.msgpack.encode(retold)
        count = retold["num_records"]
        assert retold["records"] == records[:count] and count < len(records)
        for hidden in [*records[count:], *filter(None, captures[count:])]:
            assert hidden not in everything
        wrong = next(k for k in range(len(transcript.keys[str(index)].whys)) if k != transcript.keys[str(index)].right)
        once = retell(learner, 10_000, answers | {str(index): [wrong]})
        assert once["num_records"] == count and once["items"][index]["right"] is None, "there is a second try"
        answers[str(index)] = [None]
    retold = retell(learner, 10_000, answers)
    assert retold["progress"]["over"] and retold["records"] == records and retold["captures"] == captures
    name = run_name(LESSON, "zh", 0)
    for address in (f"/lessons/{name}", f"/static/lessons/{name}", f"/api/lessons/{name}", f"/api/lessons/{LESSON}.zh"):
        assert requests.get(url + address).status_code == 404
    assert requests.get(f"{url}/api/lessons/{LESSON}/export.html").status_code == 422
    listed = requests.get(f"{url}/api/recordings").json()["recordings"]
    assert all(LESSON not in json.dumps(entry) for entry in listed)


def test_known_records_are_not_sent_again(learner: Client) -> None:
    answers = {str(i): [None] for i in range(100)}
    whole = retell(learner, 10_000, answers)
    rest = retell(learner, 10_000, answers, run=whole["run"], first=3, since=5)
    assert rest["first_record"] == 3 and rest["records"] == whole["records"][3:]
    assert rest["items"] == whole["items"][5:]
    other = retell(learner, 10_000, answers, run=whole["run"] + 1, first=3)
    assert other["first_record"] == 0, "of another run nothing is there"
    assert retell(learner, 10_000, answers, run=whole["run"], first=999)["records"] == []


def test_a_lesson_of_several_runs_goes_from_one_to_the_next(learner: Client) -> None:
    answers = {str(i): [None] for i in range(100)}
    runs: list[int] = []
    at = -1
    while True:
        retold = retell(learner, at, answers, lesson="pages")
        if retold["run"] not in runs:
            runs.append(retold["run"])
        if retold["progress"]["over"]:
            break
        at = retold["progress"]["at"] + 1
    assert runs == [0, 1, 2]


def test_the_list_has_recorded_runs(url: str, learner: Client) -> None:
    listed = requests.get(f"{url}/api/lessons").json()["lessons"]
    found = {card["id"]: card for card in listed}
    assert found[LESSON]["recorded"] and found[LESSON]["refused"] is None and len(found[LESSON]["title"]) == 2
    assert [card["id"] for card in listed] == [LESSON, "pages"], "by number"
    sentence = learner.refused("lesson_retell", lesson="sharing", language="en")["message"]
    assert "no recorded lesson 'sharing'" in sentence
    assert retell(learner, -1, {}, language="fr")["language"] in ("en", "zh")


def test_a_live_lesson_is_exported(live_server: str) -> None:
    answer = requests.get(f"{live_server}/api/lessons/{LESSON}/export.html")
    assert answer.status_code == 200 and f'filename="kvtheater-{LESSON}.html"' in answer.headers["Content-Disposition"]
    assert all(f'id="embedded-lesson-{code}-0"' in answer.text for code in ("en", "zh"))
    answer = requests.get(f"{live_server}/api/lessons/none/export.html")
    assert answer.status_code == 404 and "no lesson 'none'" in answer.json()["error"]["message"]


def test_only_one_export_runs_at_a_time(live_server: str) -> None:
    """Sixteen threads answer requests, and concurrent exports must not block all of them."""
    answers: list[int] = []

    def ask() -> None:
        answers.append(requests.get(f"{live_server}/api/lessons/{LESSON}/export.html").status_code)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 200 in answers and set(answers) <= {200, 409, 503}
    assert len([status for status in answers if status != 200]) >= 1
