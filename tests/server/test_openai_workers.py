"""OpenAI's clients at a web worker get the server's answers as they are produced, and its refusals."""

from collections.abc import Iterator

import pytest
import requests
from openai import OpenAI

from app.ground.settings import ApiSettings
from app.openai.paths import MAX_BYTES
from tests.server.apis import Api
from tests.server.classes import OWNER, TOKEN
from tests.server.conftest import wait_for
from tests.server.redis_server import RedisServer
from tests.server.web_workers import Worker

STORY = "Once upon a time"


@pytest.fixture
def api(redis_server: RedisServer) -> Iterator[Api]:
    found = Api(ApiSettings(), token=TOKEN, message_queue=redis_server.url)
    yield found
    found.close()


@pytest.fixture
def worker(api: Api, redis_server: RedisServer) -> Iterator[Worker]:
    found = Worker(redis_server.url)
    yield found.linked()
    found.close()


def test_a_stream_at_a_worker_is_the_servers(api: Api, worker: Worker) -> None:
    def at(url: str) -> OpenAI:
        return OpenAI(base_url=f"{url}/v1", api_key=TOKEN, max_retries=0, timeout=60)

    texts = []
    for url in (api.url, worker.url):
        completion = at(url).chat.completions.create(
            model="bundled", messages=[{"role": "user", "content": STORY}], max_tokens=30, temperature=0, stream=True
        )
        chunks = list(completion)
        assert len(chunks) > 1 and chunks[-1].choices[0].finish_reason
        texts.append("".join(chunk.choices[0].delta.content or "" for chunk in chunks))
    assert texts[0] and texts[0] == texts[1]
    assert [model.id for model in at(worker.url).models.list()] == ["bundled"]


def test_streams_pass_without_delay_and_disconnects_pass_too(api: Api, worker: Worker) -> None:
    body = {"model": "bundled", "prompt": STORY, "max_tokens": 900, "ignore_eos": True, "stream": True}
    with requests.post(f"{worker.url}/v1/completions", json=body, stream=True, headers=OWNER, timeout=60) as answer:
        assert next(answer.iter_lines()).startswith(b"data: {") and api.served.engine.num_active == 1
    wait_for(lambda: api.served.engine.num_active == 0 and api.held() == 0, "its blocks")
    assert any(record.kind == "abort" for record in api.records())


def test_refusals_at_a_worker_have_the_apis_shape(api: Api, worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(data: bytes) -> tuple[int, dict[str, str | None]]:
        answer = requests.post(f"{worker.url}/v1/completions", data=data, headers=OWNER, timeout=20)
        return answer.status_code, answer.json()["error"]

    body = b'{"model": "nobody", "prompt": "x"}'
    status, error = ask(body)
    assert (status, error["code"]) == (404, "model_not_found")
    status, error = ask(b" " * (MAX_BYTES + 1))
    assert (status, error["type"]) == (413, "invalid_request_error")

    def refuse(*_: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr("gevent.socket.create_connection", refuse)
    status, error = ask(body)
    assert (status, error["code"]) == (503, "loading")
