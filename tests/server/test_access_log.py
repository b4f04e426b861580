"""The access log has one line of JSON per request, without secrets."""

import io
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from app.ground.settings import ApiSettings, Policy, ServerSettings
from app.models.model_entry import ModelEntry
from app.models.registry import Models
from app.openai.keys import digest
from app.server.application import create_app
from app.server.listener import Listener, bind
from app.transport import access_log
from app.transport.access_log import AccessLog, add_fields
from tests.server.conftest import Client, wait_for
from tests.server.fake import FakeModel

FOR_EACH = {"time", "method", "path", "status", "bytes", "seconds"}


class Logged:
    """Server with an access log, and its lines."""

    def __init__(self, file: Path, token: str | None = None, api: ApiSettings | None = None) -> None:
        self.file = file
        self.log = AccessLog.open(str(file), secret=("/j/",))
        self.model = FakeModel()
        app = create_app(Models(ModelEntry(self.model)), ServerSettings(token=token, api=api), access_log=self.log)

        @app.route("/v1/told", methods=["POST"])
        def note() -> str:
            from flask import request

            add_fields(request.environ, client="grader", request_id="cmpl-1", prompt_tokens=3, model="x" * 500)
            add_fields(request.environ, api_key="sk-secret", prompt="the text", cached_tokens=True, theater=None)
            return "done"

        self.listener = Listener(app, bind("127.0.0.1", 0))
        self.port = self.listener.port
        self.url = f"http://127.0.0.1:{self.port}"

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text("utf-8").splitlines()]

    def wait_for_lines(self, count: int) -> list[dict[str, Any]]:
        wait_for(lambda: len(self.lines()) >= count, f"line {count}")
        return self.lines()

    def close(self) -> None:
        self.listener.close()
        self.log.close()


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[Logged]:
    server = Logged(tmp_path / "access.jsonl")
    yield server
    server.close()


def test_each_request_is_a_line(logged: Logged) -> None:
    session = requests.Session()  # one connection: what a line says is of its own request
    started_at = time.time()
    size = len(session.get(f"{logged.url}/api/health?secret=1").content)
    session.post(f"{logged.url}/api/nowhere", data="a body")
    session.get(f"{logged.url}/%E6%98%A5")
    health, nowhere, spring = logged.wait_for_lines(3)
    assert set(health) == FOR_EACH
    assert (health["method"], health["path"], health["status"]) == ("GET", "/api/health", 200)
    assert size < health["bytes"] < size + 2000, "the head is counted too"
    assert 0 < health["seconds"] < time.time() - started_at
    assert health["time"].startswith("20") and health["time"].endswith("Z")
    assert (nowhere["method"], nowhere["path"], nowhere["status"]) == ("POST", "/api/nowhere", 405)
    assert spring["path"] == "/春"


def test_api_requests_log_additional_fields(logged: Logged) -> None:
    requests.post(f"{logged.url}/v1/told", headers={"Authorization": "Bearer sk-secret"})
    requests.get(f"{logged.url}/api/health")
    served, plain = logged.wait_for_lines(2)
    assert set(served) == FOR_EACH | {"client", "request_id", "prompt_tokens", "model"}
    assert (served["client"], served["request_id"], served["prompt_tokens"]) == ("grader", "cmpl-1", 3)
    assert served["model"] == "x" * 200
    assert set(plain) == FOR_EACH


@pytest.mark.parametrize("stream", [False, True])
def test_model_requests_are_logged_with_client_and_tokens(tmp_path: Path, stream: bool) -> None:
    key = "sk-grader-secret"
    api = ApiSettings(keys={digest(key): Policy(name="grader")})
    server = Logged(tmp_path / "access.jsonl", api=api)
    try:
        body = {"model": "fake", "prompt": "abcde", "max_tokens": 3, "stream": stream}
        answer = requests.post(f"{server.url}/v1/completions", json=body, headers={"Authorization": f"Bearer {key}"})
        assert answer.status_code == 200, answer.text
        assert requests.post(f"{server.url}/v1/completions", json=body).status_code == 401
        served, refused = server.wait_for_lines(2)
        known = {"client", "request_id", "model", "theater", "prompt_tokens", "cached_tokens", "completion_tokens"}
        assert set(served) == FOR_EACH | known
        assert (served["client"], served["model"]) == ("grader", "fake")
        assert (served["prompt_tokens"], served["cached_tokens"], served["completion_tokens"]) == (5, 0, 3)
        assert served["request_id"] == answer.headers["X-Request-Id"]
        assert set(refused) == FOR_EACH
        assert "secret" not in server.file.read_text("utf-8")
    finally:
        server.close()


def test_secrets_are_in_no_line(tmp_path: Path) -> None:
    server = Logged(tmp_path / "access.jsonl", token="secret-token")
    try:
        requests.get(f"{server.url}/?token=secret-token")  # two: it leads to the page without it
        requests.get(f"{server.url}/api/models", headers={"Authorization": "Bearer secret-token"})
        requests.get(f"{server.url}/api/models", cookies={"kvtheater_token": "secret-token"})
        requests.get(f"{server.url}/j/CODE42.key")
        with socket.create_connection(("127.0.0.1", server.port)) as raw:
            raw.sendall(b"GET http://me:password@127.0.0.1/api/health?secret HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            raw.recv(10)
        lines = server.wait_for_lines(6)
        assert {line["path"] for line in lines} == {"/", "/api/models", "/j/*", "/api/health"}
        text = server.file.read_text("utf-8")
        assert not any(secret in text for secret in ("secret", "CODE42", "key", "password"))
        assert server.file.stat().st_mode & 0o777 == 0o600
    finally:
        server.close()


def test_an_unreadable_request_has_no_method_and_no_path(logged: Logged) -> None:
    """The line has neither even if the connection's previous request had both."""
    with socket.create_connection(("127.0.0.1", logged.port)) as raw:
        raw.sendall(b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        raw.recv(10)
        logged.wait_for_lines(1)
        raw.sendall(b"NONSENSE\r\n\r\n")
        good, bad = logged.wait_for_lines(2)
    assert good["path"] == "/api/health"
    assert (bad["method"], bad["path"], bad["status"]) == (None, None, 400)


def test_disconnects_are_logged(logged: Logged) -> None:
    """The client closes without reading: the response is longer than the system's send buffer."""
    with socket.create_connection(("127.0.0.1", logged.port)) as raw:
        raw.sendall(b"GET /vendor/plotly.min.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        raw.recv(10)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # no polite goodbye
    (line,) = logged.wait_for_lines(1)
    assert (line["status"], line["gone"]) == (200, True)


def test_disconnects_from_streams_are_logged(tmp_path: Path) -> None:
    """The departure is noticed although nothing is sent."""
    server = Logged(tmp_path / "access.jsonl", api=ApiSettings())
    server.model.step_seconds = 0.02
    try:
        body = {"model": "fake", "prompt": "abcde", "max_tokens": 900, "stream": True}
        with requests.post(f"{server.url}/v1/completions", json=body, stream=True) as answer:
            next(answer.iter_content(8))
        (line,) = server.wait_for_lines(1)
        assert (line["status"], line["gone"], line["prompt_tokens"]) == (200, True, 5)
        assert 0 < line["completion_tokens"] < 900
    finally:
        server.close()


def test_a_client_that_leaves_before_an_answer_began_has_no_status(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The server's terminal shows no error, since it is not a fault of the server."""
    server = Logged(tmp_path / "access.jsonl", api=ApiSettings())
    server.model.step_seconds = 0.02
    try:
        body = {"model": "fake", "prompt": "abcde", "max_tokens": 900}
        with pytest.raises(requests.Timeout):
            requests.post(f"{server.url}/v1/completions", json=body, timeout=0.3)
        (line,) = server.wait_for_lines(1)
        assert (line["status"], line["gone"]) == (None, True)
        assert capfd.readouterr().err == ""
    finally:
        server.close()


def test_a_web_socket_is_one_line_when_it_ends(logged: Logged) -> None:
    client = Client(logged.url)
    client.do("create", name="a test")
    assert not [line for line in logged.lines() if line["status"] == 101]
    client.io.disconnect()
    wait_for(lambda: [line for line in logged.lines() if line["status"] == 101], "the socket's line")
    (line,) = (line for line in logged.lines() if line["status"] == 101)
    assert line["path"] == "/socket.io/"


def test_closing_writes_the_last_lines(logged: Logged) -> None:
    for _ in range(50):
        requests.get(f"{logged.url}/api/health")
    logged.close()
    assert len(logged.lines()) == 50


class Stuck(io.StringIO):
    """Pipe without a reader, until `free`."""

    def __init__(self) -> None:
        super().__init__()
        self.free = threading.Event()

    def write(self, text: str) -> int:
        self.free.wait(60)
        return super().write(text)


def noted(log: AccessLog, path: str) -> None:
    log.record({"REQUEST_METHOD": "GET", "PATH_INFO": path}, started_at=0.0, seconds=0.1, status=200, num_bytes=1)


def test_a_blocked_file_delays_no_request_and_lost_lines_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one line is written, 3 wait and 5 are lost; the next line that is accepted reports the number."""
    monkeypatch.setattr(access_log, "MAX_WAITING", 3)
    out = Stuck()
    log = AccessLog(out)
    noted(log, "/0")
    wait_for(log._lines.empty, "the writer to take the first")
    for i in range(1, 9):
        noted(log, f"/{i}")
    assert out.getvalue() == "", "nobody waited for the writer"
    out.free.set()
    wait_for(log._lines.empty, "the writer to go on")
    noted(log, "/9")
    noted(log, "/10")
    log.close()
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(line["path"], line.get("lost")) for line in lines] == [
        ("/0", None), ("/1", None), ("/2", None), ("/3", None), ("/9", 5), ("/10", None)
    ]  # fmt: skip


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_a_full_disk_is_reported_once_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    log = AccessLog.open("/dev/full")
    for i in range(3):
        noted(log, f"/{i}")
        wait_for(log._lines.empty)
    wait_for(lambda: caplog.records, "the warning")
    log.close()
    assert caplog.records[0].message.startswith("the access log cannot be written: ")
    assert sum("cannot be written" in record.message for record in caplog.records) <= 2
