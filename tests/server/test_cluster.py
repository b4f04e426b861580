"""A server with runs of several instances: behind /v1, on the page, and when an instance ends."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from app.ground.settings import ApiSettings, ServerSettings
from app.models.live_model import LiveModel
from app.session.session import Session
from engine.config import EngineConfig
from engine.model.loader import load_model
from engine.trace.operations import Arrive, Finish, Lost
from tests.server.apis import Api
from tests.server.conftest import Client

PROMPT = "春江潮水连海平，海上明月共潮生。滟滟随波千万里，"
APART = EngineConfig(prefill=1, decode=1, enforce_eager=True, max_num_seqs=8, num_blocks=128)


class Serving(Api):
    def post(self, path: str = "/v1/completions", **body: Any) -> requests.Response:
        return super().post(path, **{"prompt": PROMPT, "max_tokens": 12, "temperature": 0} | body)

    @property
    def theaters(self) -> list[Session]:
        found: list[Session] = self.app.extensions["kvtheater"].all()
        return found


@pytest.fixture(scope="module")
def live() -> LiveModel:
    return LiveModel(load_model("bundled"), True, ServerSettings())


@pytest.fixture
def apart(live: LiveModel) -> Iterator[Serving]:
    serving = Serving(ApiSettings(), APART, live)
    yield serving
    serving.close()


@pytest.fixture(scope="module")
def expected(live: LiveModel) -> str:
    serving = Serving(ApiSettings(), APART.instance_config, live)
    text: str = serving.post().json()["choices"][0]["text"]
    serving.close()
    return text


def test_answers_of_several_instances_equal_those_of_one(apart: Serving, expected: str, tmp_path: Path) -> None:
    first, again = apart.post(), apart.post()
    assert first.json()["choices"][0]["text"] == again.json()["choices"][0]["text"] == expected
    assert first.headers["X-KVTheater-Record"] == "0"
    usage = [one.json()["usage"] for one in (first, again)]
    assert [one["completion_tokens"] for one in usage] == [12, 12]
    assert usage[0]["prompt_tokens_details"]["cached_tokens"] == 0 < usage[1]["prompt_tokens_details"]["cached_tokens"]
    arrived = [op for op in apart.ops(tmp_path) if isinstance(op, Arrive)]
    assert arrived and arrived[0].num_bytes > 0


def test_samples_are_counted_once(apart: Serving) -> None:
    answer = apart.post(n=3, temperature=1.0, seed=1).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert answer["usage"]["completion_tokens"] <= 36


def test_a_stream_contains_all_chunks(apart: Serving, expected: str) -> None:
    lines = [line[6:] for line in apart.post(stream=True).iter_lines() if line.startswith(b"data: ")]
    assert lines.pop() == b"[DONE]"
    assert "".join(json.loads(line)["choices"][0]["text"] for line in lines if json.loads(line)["choices"]) == expected


def test_many_clients_at_once(apart: Serving, expected: str, tmp_path: Path) -> None:
    texts: list[str] = []
    askers = [
        threading.Thread(target=lambda: texts.append(apart.post().json()["choices"][0]["text"])) for _ in range(12)
    ]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert texts == [expected] * 12
    assert apart.ops(tmp_path)


@pytest.mark.parametrize("index", [0, 1])
def test_an_ending_instance_causes_no_wrong_answer(apart: Serving, expected: str, index: int, tmp_path: Path) -> None:
    """Requests of an instance that ends are answered, or fail with its error; later ones are served."""
    assert apart.post().status_code == 200
    theater = apart.theaters[0]
    answers: list[requests.Response] = []
    askers = [threading.Thread(target=lambda: answers.append(apart.post(max_tokens=60))) for _ in range(6)]
    for asker in askers:
        asker.start()

    theater.lose_instance(index)
    for asker in askers:
        asker.join()
    for answer in answers:
        if answer.status_code == 200:
            assert answer.json()["choices"][0]["text"].startswith(expected)
        else:
            assert answer.status_code == 500 and "has ended" in answer.json()["error"]["message"]
    assert apart.post().json()["choices"][0]["text"] == expected
    ops = apart.ops(tmp_path)
    assert len([op for op in ops if isinstance(op, Lost)]) == 1


def test_a_disconnect_aborts_the_request(apart: Serving, tmp_path: Path) -> None:
    answer = apart.post(stream=True, max_tokens=150)
    next(answer.iter_content(1))
    answer.close()
    assert apart.post().status_code == 200
    ops = apart.ops(tmp_path)
    assert "abort" in [op.reason for op in ops if isinstance(op, Finish)]


def test_a_run_of_the_page_may_have_several_instances(apart: Serving) -> None:
    client = Client(apart.url)
    changes: list[tuple[dict[str, Any], int]] = [
        ({}, 2), ({"alone": True}, 0), ({"config": {"prefill": 2, "decode": 1}}, 3)
    ]  # fmt: skip
    for more, count in changes:
        client.do("create", **more)
        assert apart.theaters[-1].run.config.num_instances == count
    refused = client.refused("create", config={"prefill": 1, "decode": 0})
    assert "set decode or mixed" in refused["message"]
    refused = client.refused("create", config={"instances": "process"})
    assert "processes" in refused["message"]
    client.io.disconnect()
