"""The API withstands hostile bodies, floods, keys, secrets and failures; the next request works after each."""

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from msgspec.structs import replace

from app.cli import main
from app.ground.errors import AppError
from app.ground.limits import Limits
from app.ground.settings import ANONYMOUS, ApiSettings, Policy
from app.openai.keys import digest, read_keys
from app.session.closing import Closing
from engine.trace.check import check
from engine.trace.operations import Submit
from tests.server.apis import CONFIG, Api, served_api
from tests.server.conftest import Client, wait_for

STORY = "Once upon a time"


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with served_api() as found:
        yield found


def works(api: Api) -> None:
    assert api.post(prompt=STORY, max_tokens=2).json()["choices"][0]["text"]


@pytest.mark.parametrize(
    "data",
    [
        b"{", b"[" * 200_000, b'{"prompt": "\xff\xfe"}', b'{"prompt": "x", "max_tokens": 1e400}',
        b'{"prompt": "' + b"a" * 3_000_000 + b'"}',
        json.dumps({"prompt": "x", "stop": ["s"] * 10_000}).encode(),
        json.dumps({"prompt": "x", "logit_bias": {str(i): 1 for i in range(10_000)}}).encode(),
        json.dumps({"prompt": [[1] * 3] * 10_000}).encode(),
        json.dumps({"prompt": [10**8]}).encode(),
        json.dumps({"prompt": ""}).encode(),
        json.dumps({"prompt": "\ud800"}).encode(),
    ],
)  # fmt: skip
def test_a_hostile_body_is_refused_in_one_sentence_and_the_next_request_works(api: Api, data: bytes) -> None:
    answer = api.send(data)
    error = answer.json()["error"]
    assert answer.status_code in (400, 413), answer.text
    assert error["type"] == "invalid_request_error" and error["message"] and "\n" not in error["message"]
    assert len(error["message"]) < 400
    works(api)


CHAT: dict[str, Any] = {"path": "/v1/chat/completions", "messages": [{"role": "user", "content": STORY}]}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"prompt": "x", "max_tokens": 10**6}, "max_tokens"),
        (CHAT | {"max_completion_tokens": 10**6}, "max_completion_tokens"),
        ({"prompt": "x", "n": 64}, "n"),
        ({"prompt": "x", "best_of": 64}, "best_of"),
        ({"prompt": [1] * 5000}, "prompt"),
        (CHAT | {"messages": [{"role": "user", "content": "x " * 5000}]}, "messages"),
        ({"prompt": "x", "priority": 2**60}, "priority"),
        ({"prompt": "x", "priority": 3}, "priority"),
        ({"prompt": "x", "logit_bias": {"999999": 1}}, "logit_bias"),
        ({"prompt": "x", "min_tokens": 5, "max_tokens": 3}, "min_tokens"),
        ({"prompt": "x", "stream": True, "prompt_logprobs": 1}, "prompt_logprobs"),
        (CHAT | {"stream": True, "prompt_logprobs": 1}, "prompt_logprobs"),
    ],
)
def test_refusals_name_the_field_of_the_body(api: Api, body: dict[str, Any], param: str) -> None:
    answer = api.post(**body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), answer.text
    works(api)


def test_without_max_tokens_the_rest_of_the_context_is_the_limit() -> None:
    """The prompt takes 17 of 64 tokens: a key's limit of 500 and a completion's 16 are capped by the rest."""
    with served_api(
        ApiSettings(default=Policy(name=ANONYMOUS, max_tokens=500)), config=replace(CONFIG, max_model_len=64)
    ) as api:

        def length(**body: Any) -> int:
            found: int = api.post(ignore_eos=True, **body).json()["usage"]["completion_tokens"]
            return found

        used = api.post("/tokenize", messages=CHAT["messages"]).json()["count"]
        assert length(**CHAT) == 64 - used
        assert [length(prompt=[5] * size) for size in (17, 48, 60)] == [16, 16, 4]
        assert length(prompt=[[5] * 17, [5] * 60]) == 16 + 4, "each prompt of a request its own"
        assert api.post(prompt=[5] * 60, max_tokens=16).json()["error"]["param"] == "max_tokens"
        assert api.post(prompt=[5] * 64).json()["error"]["param"] == "prompt"
    with served_api(ApiSettings(default=Policy(name=ANONYMOUS, max_tokens=5))) as api:
        assert api.post(prompt=STORY, ignore_eos=True).json()["usage"]["completion_tokens"] == 5
        refused = api.post(**CHAT, max_completion_tokens=6).json()["error"]
        assert refused["param"] == "max_completion_tokens" and "at most 5 for this client" in refused["message"]


def test_prompt_log_probabilities_stand_where_vllm_has_them(api: Api) -> None:
    completed = api.post(prompt=[5, 6, 7], max_tokens=1, prompt_logprobs=1).json()["choices"][0]
    for place in (completed, api.post(**CHAT, max_tokens=1, prompt_logprobs=1).json()):
        first, *scored = place["prompt_logprobs"]
        assert first is None and scored and all(one["logprob"] < 0 for found in scored for one in found.values())


def test_fifty_megabytes_are_refused_before_they_are_read(api: Api) -> None:
    connection = socket.create_connection(("127.0.0.1", api.port), timeout=30)
    head = "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 52428800\r\n\r\n"
    connection.sendall(head.encode() + b'{"prompt": "')
    answer = b""
    while b"}}" not in answer:
        answer += connection.recv(4096)
    assert answer.startswith(b"HTTP/1.1 413") and b"invalid_request_error" in answer
    connection.close()
    works(api)


def test_a_slow_body_delays_no_other_request(api: Api) -> None:
    connections = []
    for _ in range(40):
        connection = socket.create_connection(("127.0.0.1", api.port), timeout=30)
        connection.sendall(b'POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 900\r\n\r\n{"pro')
        connections.append(connection)
    works(api)
    for connection in connections:
        connection.close()


def trickled(connection: socket.socket) -> bytes:
    """Return the whole answer to a client that sends a byte now and then, until the connection is closed."""
    answer = b""
    connection.settimeout(0.1)
    for _ in range(300):
        try:
            connection.send(b"x")
            if not (piece := connection.recv(4096)):
                return answer
            answer += piece
        except TimeoutError:
            continue
        except ConnectionError:
            return answer
    raise AssertionError("the connection stayed open")


def test_a_missing_body_is_answered_in_a_sentence_and_closes_the_connection() -> None:
    """Bodies are short and long, of the API and of the page; a client that sends bytes slowly is not waited for."""
    with served_api(limits=Limits(stall_seconds=0.8)) as api:
        for path, size in (("v1/completions", 900), ("v1/completions", 2_000_000), ("api/recordings", 900)):
            connection = socket.create_connection(("127.0.0.1", api.port), timeout=30)
            connection.sendall(
                f'POST /{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {size}\r\n\r\n{{"pro'.encode()
            )
            answer = trickled(connection)
            assert answer.startswith(b"HTTP/1.1 408 "), answer
            error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
            assert error["message"] == "the request's body did not arrive within 0.8 seconds; send it again"
            if path.startswith("v1"):
                assert (error["type"], error["code"], error["param"]) == ("timeout_error", "request_timeout", None)
            connection.close()
        works(api)


def test_too_many_long_bodies_are_refused_in_the_apis_shape() -> None:
    with served_api(limits=Limits(uploads=1)) as api:
        held = socket.create_connection(("127.0.0.1", api.port), timeout=30)
        held.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2000000\r\n\r\n{")
        long = json.dumps({"prompt": "x", "user": "y" * 1_100_000}).encode()
        wait_for(lambda: api.send(long).status_code == 503, "the held one's place")
        refused = api.send(long)
        error = refused.json()["error"]
        assert refused.headers["Retry-After"] == "2" and error["type"] == "service_unavailable_error"
        assert (error["code"], error["param"]) == ("busy", None) and "try again" in error["message"]
        assert api.send(long, "/api/recordings").json()["error"]["code"] == "busy"
        works(api)
        held.close()
        wait_for(lambda: api.send(long).status_code != 503, "its place to be free again")


def test_methods_and_addresses_that_are_not_there_are_answered_in_the_apis_shape(api: Api) -> None:
    for method, path, right in (
        ("GET", "/v1/completions", "POST"),
        ("GET", "/tokenize", "POST"),
        ("POST", "/v1/models", "GET"),
        ("DELETE", "/v1/models/bundled", "GET"),
    ):
        answer = requests.request(method, api.url + path)
        error = answer.json()["error"]
        assert answer.status_code == 405 and right in answer.headers["Allow"].split(", ")
        assert error["message"] == f"{method} {path} is not allowed; use {right}"
        assert set(error) == {"message", "type", "param", "code"}
    for method in ("GET", "POST", "DELETE"):
        answer = requests.request(method, f"{api.url}/v1/audio")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
        assert answer.json()["error"]["message"] == "there is no /v1/audio here"


def test_requests_of_another_sites_page_are_refused(api: Api) -> None:
    answer = api.send(b"{}", Origin="http://elsewhere.example")
    assert answer.status_code == 403 and answer.json()["error"]["type"] == "permission_error"


def test_a_clients_full_queue_does_not_affect_other_clients(capsys: pytest.CaptureFixture[str]) -> None:
    with served_api(
        ApiSettings(default=Policy(name=ANONYMOUS, max_waiting=3)), config=replace(CONFIG, max_num_seqs=1)
    ) as api:
        body = {"prompt": STORY, "max_tokens": 900, "ignore_eos": True, "stream": True}
        held = [api.open(**body) for _ in range(20)]
        wait_for(lambda: api.served.engine.status()["waiting"].get(ANONYMOUS) == 3, "a full lane")
        lane = 'kvtheater:lane_requests_waiting{client="anonymous",engine="0",model_name="bundled"} 3.0'
        assert lane in requests.get(f"{api.url}/metrics", timeout=30).text
        assert main(["top", api.url, "--once"]) == 0
        shown = capsys.readouterr().out
        assert re.search(r"│ anonymous │ +3 │", shown) and "unknown" not in shown
        refused = api.post(prompt="x", max_tokens=1)
        assert refused.status_code == 429 and 1 <= int(refused.headers["Retry-After"]) <= 60
        assert refused.json()["error"]["code"] == "rate_limit_exceeded"
        counted = 'kvtheater:http_refused_total{handler="/v1/completions",status="429"}'
        wait_for(lambda: counted in requests.get(f"{api.url}/metrics", timeout=30).text, "it to be counted")
        for connection in held:
            connection.close()
        wait_for(lambda: api.served.engine.num_active == 0, "all of them to be gone")
        works(api)


def test_many_requests_of_a_client_do_not_starve_others() -> None:
    with served_api(config=replace(CONFIG, max_num_seqs=2)) as api:
        body = {"model": "bundled", "prompt": STORY, "max_tokens": 40, "temperature": 0, "ignore_eos": True}
        ended: list[float] = []

        def greedy() -> None:
            requests.post(f"{api.url}/v1/completions", json=body, headers={"Authorization": "Bearer g"}, timeout=120)
            ended.append(time.monotonic())

        threads = [threading.Thread(target=greedy) for _ in range(40)]
        for thread in threads:
            thread.start()
        wait_for(lambda: sum(api.served.engine.status()["waiting"].values()) > 25, "a long lane")
        requests.post(f"{api.url}/v1/completions", json=body, headers={"Authorization": "Bearer m"}, timeout=120)
        modest = time.monotonic()
        for thread in threads:
            thread.join()
        assert sum(at > modest for at in ended) > 15, "it did not wait for all that came before it"


def test_a_deadline_ends_a_request_and_frees_its_blocks() -> None:
    with served_api(ApiSettings(default=Policy(name=ANONYMOUS, deadline=0.3))) as api:
        late = api.post(prompt=STORY, max_tokens=1000, ignore_eos=True)
        assert late.status_code == 408 and "deadline" in late.json()["error"]["message"]
        stream = api.post(prompt=STORY, max_tokens=1000, ignore_eos=True, stream=True)
        assert stream.status_code == 200 and stream.text.rstrip().rsplit("data: ", 1)[1].startswith('{"error"')
        wait_for(lambda: api.held() == 0 and api.served.engine.num_active == 0)
        wait_for(lambda: api.post(prompt=STORY, max_tokens=2).ok)  # on a busy machine it may miss its deadline, too


def test_keys_open_the_api_and_nothing_else_and_bound_each_client(tmp_path: Path) -> None:
    default = Policy(name=ANONYMOUS)
    file, bob = tmp_path / "keys.toml", "bob-key-é" + "x" * 600
    file.write_text(f'[alice]\nsha256 = "{digest("alice-key")}"\nmax_tokens = 5\n[bob]\nsha256 = "{digest(bob)}"\n')
    keys = read_keys(file, default)
    with served_api(ApiSettings(keys=keys), token="the-token", host="0.0.0.0") as api:
        ask = {"model": "bundled", "prompt": STORY, "max_tokens": 6}

        def status(key: str, path: str = "/v1/completions") -> int:
            headers = {"Authorization": f"Bearer {key}".encode()} if key else {}
            return requests.post(api.url + path, json=ask, headers=headers, timeout=60).status_code

        assert (status(bob), status("alice-key"), status("nobody"), status("")) == (200, 400, 401, 401)
        assert requests.get(f"{api.url}/", headers={"Authorization": f"Bearer {bob}".encode()}).status_code == 401
        assert (
            requests.get(f"{api.url}/api/theaters", headers={"Authorization": f"Bearer {bob}".encode()}).status_code
            == 401
        )
        assert requests.get(f"{api.url}/v1/models").json()["error"]["code"] == "invalid_api_key"
        assert requests.get(f"{api.url}/metrics", headers={"Authorization": "Bearer the-token"}).status_code == 200
        clients = [op.client for record in api.records() for op in record.ops if isinstance(op, Submit)]
        assert clients == ["bob"]


def test_metrics_are_only_for_owners() -> None:
    """Metrics need the token if the page does, and never an API key."""
    keys = {digest("alice-key"): Policy(name="alice")}
    alice = {"Authorization": "Bearer alice-key"}
    with served_api(ApiSettings(keys=keys)) as api:
        assert requests.get(f"{api.url}/metrics").status_code == 200
        assert requests.get(f"{api.url}/v1/models").status_code == 401
        assert requests.get(f"{api.url}/v1/models", headers=alice).status_code == 200
    with served_api(ApiSettings(keys=keys), token="the-token", host="0.0.0.0") as api:
        assert requests.get(f"{api.url}/v1/models", headers=alice).status_code == 200
        assert [requests.get(f"{api.url}/metrics", headers=headers).status_code for headers in (alice, {})] == [401] * 2
        assert requests.get(f"{api.url}/metrics?token=the-token").status_code == 200


def test_errors_of_key_files_name_the_place(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    for text, words in [
        ("[a]\nsha256 = 'xyz'", "sha256 of a"),
        ("[a]", "sha256"),
        ("[a]\nsha256='x'\nwhat=1", "what"),
        ("[", "keys.toml"),
    ]:
        file.write_text(text)
        with pytest.raises(ValueError, match=words):
            read_keys(file, Policy(name=ANONYMOUS))
    with pytest.raises(ValueError, match="cannot be read"):
        read_keys(tmp_path / "nowhere.toml", Policy(name=ANONYMOUS))


def test_a_private_servers_texts_are_stored_nowhere(tmp_path: Path) -> None:
    words = "the marmalade of the archbishop"
    with served_api(ApiSettings(is_private=True), data_dir=tmp_path) as api:
        answers = [
            api.post(
                prompt=f"Once {words}", max_tokens=20, temperature=0, ignore_eos=True, logprobs=3, stop=["zyx"]
            ).json()
            for _ in range(2)
        ]
        assert answers[0]["choices"][0]["text"] and answers[0]["choices"][0]["logprobs"]["tokens"], (
            "its client is told all"
        )
        assert answers[1]["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
        theater = api.served.session
        with theater.run.reading() as log:
            assert log.num_captures == 0
            log_bytes = b"".join([log.header_bytes, *(log.record_bytes(i) for i in range(len(log)))])
            ids = {id for i in range(len(log)) for entry in log.record(i).batch for id in entry.token_ids}
            assert ids == {0} and any(log.record(i).memory.blocks_held for i in range(len(log)))
        shown = requests.get(f"{api.url}/api/theaters").content + requests.get(f"{api.url}/metrics").content
        trace = requests.get(f"{api.url}/api/theaters/{theater.session_id}/trace").content
        shown += trace
        file = tmp_path / "private.kvtrace"
        file.write_bytes(trace)
        assert list(check(file)) == [], "what is left is a whole trace"
        text = answers[0]["choices"][0]["text"]
        for secret in (words.encode(), b"marmalade", b"zyx", text.encode(), text[:12].encode()):
            assert secret not in log_bytes and secret not in shown


def test_runs_with_api_clients_cannot_be_reset(api: Api) -> None:
    connection = api.open(prompt=STORY, max_tokens=900, ignore_eos=True, stream=True)
    wait_for(lambda: api.served.engine.num_active == 1)
    theater = api.served.session
    with pytest.raises(Exception, match="1 API requests are running"):
        theater.reset()
    connection.close()
    wait_for(lambda: api.served.engine.num_active == 0)
    epoch = theater.run.epoch
    theater.reset()
    works(api)
    assert theater.run.epoch == epoch + 1


def test_a_step_that_fails_ends_its_batch_with_an_error_and_others_go_on(api: Api) -> None:
    theater = api.served.session
    works(api)
    engine = theater.run.engine
    runner = engine._engine._runner  # type: ignore[attr-defined]
    execute = runner.execute
    failed = threading.Event()

    def fail(*given: object, **more: object) -> object:
        failed.set()
        runner.execute = execute
        raise RuntimeError("the device caught\nfire")

    runner.execute = fail
    answer = api.post(prompt=STORY, max_tokens=5)
    assert failed.is_set() and answer.status_code == 500
    assert answer.json()["error"]["message"] == "the step failed: RuntimeError" and api.held() == 0
    works(api)
    assert theater.status()["mode"] == "running"


def test_a_long_log_is_replaced_without_losing_requests() -> None:
    with served_api(max_log_bytes=100_000) as api:
        epochs = set()
        for _ in range(40):
            answer = api.post(prompt=STORY, max_tokens=60, temperature=0, ignore_eos=True)
            assert answer.status_code == 200 and answer.json()["usage"]["completion_tokens"] == 60
            epochs.add(api.served.session.run.epoch)
            if len(epochs) == 3:
                break
        assert len(epochs) == 3
        wait_for(lambda: api.served.session.status()["notice"], "a word about it")


def test_arrays_are_not_captured_without_viewers(api: Api) -> None:
    works(api)
    with api.served.session.run.reading() as log:
        assert log.num_captures == 0 and len(log) > 2


def test_waiting_requests_fail_when_the_session_closes() -> None:
    with served_api(config=replace(CONFIG, max_num_seqs=1)) as api:
        streams = [api.open(prompt=STORY, max_tokens=900, ignore_eos=True, stream=True) for _ in range(8)]
        wait_for(lambda: api.served.engine.num_active == 8)
        first = api.served
        api.app.extensions["kvtheater"].remove(first.session, Closing("unused"))
        for connection in streams:
            data = b""
            while b'{"error"' not in data:
                piece = connection.recv(1 << 16)
                assert piece, "an answer, and not only the end of the connection"
                data += piece
            connection.close()
        works(api)
        assert api.served.session is not first.session, "the next request has another one"


def test_a_private_run_is_neither_recomputed_nor_rerun() -> None:
    with served_api(ApiSettings(is_private=True)) as api:
        connection = api.open(prompt=STORY, max_tokens=900, ignore_eos=True, stream=True)
        connection.recv(100)
        theater = api.served.session
        with pytest.raises(AppError, match="this run is private"):
            theater.recompute(0, 0, None, None)
        connection.close()
        viewer = Client(api.url)
        with theater.run.reading() as log:
            error = viewer.refused("fork", theater=theater.session_id, at=len(log), change=None)
        viewer.io.disconnect()
        assert "private" in error["message"]


def test_a_record_that_cannot_be_delivered_fails_every_open_call(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    works(api)
    engine = api.served.engine

    def broken(record: object) -> None:
        raise KeyError(3)

    monkeypatch.setattr(engine, "_deliver", broken)
    answer = api.post(prompt=STORY, max_tokens=4)
    assert answer.status_code == 500 and "internal server error" in answer.json()["error"]["message"]
    monkeypatch.undo()
    wait_for(lambda: engine.num_active == 0 and api.held() == 0)
    works(api)
