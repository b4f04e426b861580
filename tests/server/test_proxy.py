"""`kvtheater proxy`: bytes pass unchanged, keys are in no file, and clients see the upstream server."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.conftest import ROOT
from tests.server.apis import served_api
from tests.server.running_proxy import Running
from tests.server.waiting import wait_for

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("aiohttp") is None, reason="aiohttp is not installed: pip install 'kvtheater[proxy]'"
)
KEY = "sk-a-key-that-is-a-secret"
STORY = "Once upon a time"
USUAL: dict[str, Any] = {"model": "bundled", "temperature": 0}
CHAT = [{"role": "user", "content": STORY}]
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/completions", USUAL | {"prompt": STORY, "max_tokens": 5}),
    ("/v1/completions", USUAL | STREAMED | {"prompt": STORY, "max_tokens": 5}),
    ("/v1/chat/completions", USUAL | {"messages": CHAT, "max_tokens": 5}),
    ("/v1/messages", USUAL | {"messages": CHAT, "max_tokens": 5, "stream": True}),
    ("/v1/responses", USUAL | {"input": STORY, "max_output_tokens": 5, "stream": True}),
    ("/v1/messages", USUAL | {"messages": CHAT, "max_tokens": 0}),
]
EVENTS = [b'data: {"n": %d, "usage": {"prompt_tokens": %d}}\n\n' % (n, n) for n in range(5)]


class Upstream(BaseHTTPRequestHandler):
    """Server that answers in each way that HTTP allows, and stores its requests."""

    protocol_version = "HTTP/1.1"
    seen: list[tuple[str, str, dict[str, str], bytes]] = []
    go_on = threading.Event()
    left = threading.Event()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.seen.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        kind = self.path.partition("?")[0].rpartition("/")[2]
        if kind == "cut":
            self.start(200, ("Content-Length", "100"))
            self.wfile.write(b"only this")
            self.close_connection = True
        elif kind in ("stream", "endless"):
            self.start(200, ("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked"))
            for event in EVENTS:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
                self.go_on.wait(10)
            while kind == "endless":
                try:
                    self.wfile.write(b"1\r\n\n\r\n")
                    time.sleep(0.02)
                except OSError:
                    self.left.set()
                    return
            self.wfile.write(b"0\r\n\r\n")
        else:
            data = body if kind == "echo" else os.urandom(300_000)
            self.answer = data
            type(self).last = data
            more = (("Content-Encoding", "gzip"), ("X-A", "1"), ("X-A", "2")) if kind == "odd" else ()
            self.start(418 if kind == "odd" else 200, ("Content-Length", str(len(data))), *more)
            self.wfile.write(data)

    do_GET = do_PUT = do_POST
    last = b""

    def start(self, status: int, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def proxy(upstream: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    found = Running(f"{upstream}/below/", tmp_path_factory.mktemp("proxy") / "traffic.jsonl")
    yield found
    found.stop()


def raw(answer: requests.Response) -> bytes:
    return bytes(answer.raw.read(decode_content=False))


def test_bodies_headers_and_targets_pass_unchanged(proxy: Running) -> None:
    sent = os.urandom(200_000)
    headers = {"X-Api-Key": KEY, "Accept-Encoding": "br, gzip;q=0.5", "X-Odd": "a, b", "Content-Encoding": "gzip"}
    answer = requests.post(f"{proxy.url}/v1/echo?a=%2Fb&c=d+e", data=sent, headers=headers, timeout=30, stream=True)
    assert raw(answer) == sent and answer.status_code == 200
    method, path, sent_headers, body = Upstream.seen[-1]
    assert (method, path, body) == ("POST", "/below/v1/echo?a=%2Fb&c=d+e", sent)
    assert (sent_headers["x-api-key"], sent_headers["x-odd"], sent_headers["content-encoding"]) == (KEY, "a, b", "gzip")
    assert sent_headers["accept-encoding"] == "gzip;q=0.5" and sent_headers["host"] != proxy.url.removeprefix("http://")
    answer = requests.put(f"{proxy.url}/odd", data=b"", timeout=30, stream=True)
    assert raw(answer) == Upstream.last and answer.status_code == 418
    assert answer.headers["Content-Encoding"] == "gzip" and answer.headers["X-A"] == "1, 2"
    assert raw(requests.get(f"{proxy.url}/any", timeout=30, stream=True)) == Upstream.last
    with pytest.raises(requests.RequestException):
        requests.post(f"{proxy.url}/cut", data=b"{}", timeout=30)


def test_a_stream_passes_as_it_comes_and_a_client_that_leaves_ends_it(proxy: Running) -> None:
    Upstream.go_on.clear()
    body = {"messages": [{"role": "user", "content": f"my password: {KEY}"}], "stream": True}
    with requests.post(
        f"{proxy.url}/stream", json=body, headers={"Authorization": f"Bearer {KEY}"}, stream=True
    ) as answer:
        pieces = answer.raw.stream(decode_content=False)
        assert next(pieces) == EVENTS[0], "while the upstream has not sent the next one"
        Upstream.go_on.set()
        assert b"".join(pieces) == b"".join(EVENTS[1:])
    with requests.post(f"{proxy.url}/endless", json=body, stream=True, timeout=10) as answer:
        next(answer.raw.stream(decode_content=False))
    assert Upstream.left.wait(10)
    wait_for(lambda: len(proxy.lines()) == 2)
    first, second = proxy.lines()
    assert first["path"] == "/stream" and first["usage"] == {"prompt_tokens": 4} and second["path"] == "/endless"
    assert KEY not in proxy.output.read_text() and time.time() - first["time"] < 60


def test_a_page_of_another_site_and_an_upstream_that_is_not_there_are_refused(tmp_path: Path, proxy: Running) -> None:
    count = len(Upstream.seen)
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}):
        assert requests.post(f"{proxy.url}/any", data=b"{}", headers=headers, timeout=30).status_code == 403
    assert len(Upstream.seen) == count
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    gone = Running(f"http://127.0.0.1:{port}", tmp_path / "traffic.jsonl", "--private")
    answer = requests.post(f"{gone.url}/v1/messages", json={"messages": []}, headers={"x-api-key": KEY}, timeout=30)
    assert answer.status_code == 502 and answer.json()["type"] == "error" and str(port) in answer.text
    assert KEY not in gone.stop() and gone.lines() == []


class Sent(BytesIO):
    """Bytes that a server sent on one connection, for `HTTPResponse`, which closes after reading."""

    def close(self) -> None: ...

    def makefile(self, mode: str) -> Sent:
        return self

    def bodies(self) -> Iterator[bytes]:
        while self.tell() < len(self.getvalue()):
            answer = HTTPResponse(self)  # type: ignore[arg-type]
            answer.begin()
            yield answer.read()


@contextmanager
def tapped(port: int) -> Iterator[tuple[str, list[Sent]]]:
    """Record what a server on this machine sends."""
    sent: list[Sent] = []
    listening = socket.create_server(("127.0.0.1", 0))

    def copy(source: socket.socket, target: socket.socket, kept: Sent | None) -> None:
        while data := source.recv(1 << 16):
            if kept is not None:
                kept.write(data)
            target.sendall(data)
        target.close()

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                server = socket.create_connection(("127.0.0.1", port))
                sent.append(Sent())
                threading.Thread(target=copy, args=(client, server, None), daemon=True).start()
                threading.Thread(target=copy, args=(server, client, sent[-1]), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}", sent
    listening.close()


def test_the_proxy_passes_the_servers_bytes(tmp_path: Path) -> None:
    with served_api() as api, tapped(api.port) as (address, sent):
        through = Running(address, tmp_path / "traffic.jsonl", "--keep-bodies")
        for path, body in CALLS[:1] * 2:
            api.post(path, **body)
        answers = [requests.post(through.url + path, json=body, timeout=60) for path, body in CALLS]
        through.stop()
        lines = through.lines()
    had = [answer.content for answer in answers]
    for one in sent:
        one.seek(0)
    assert sorted(body for one in sent for body in one.bodies()) == sorted(had) and all(had)
    assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 200, 400]
    assert [(one["path"], one["request"]) for one in lines] == CALLS
    whole = [answers[at].json()["usage"] for at in (0, 2)]
    assert [lines[at]["usage"] for at in (0, 2)] == whole and whole[0]["prompt_tokens_details"]["cached_tokens"] > 0
    for at, output in ((1, "completion_tokens"), (3, "output_tokens"), (4, "output_tokens")):
        assert lines[at]["usage"][output] == 5
    assert lines[5]["usage"] is None


def copies_in(pid: int, text: bytes) -> int:
    """Count a text in the writable memory of a process."""
    found = 0
    with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            ends, rights, *_ = line.split()
            begin, end = (int(one, 16) for one in ends.split("-"))
            if "w" in rights:
                memory.seek(begin)
                with suppress(OSError):  # a mapping of a device
                    found += memory.read(end - begin).count(text)
    return found


def ask_with(key: str, running: Running, times: int) -> None:
    """Send requests whose header and body have a key, and wait until they are written."""
    body = {"model": "m", "messages": [{"role": "user", "content": f"My key is {key}. {STORY}"}]}
    with requests.Session() as client:
        for number in range(times):
            header = {"Authorization": f"Bearer {key}"} if number % 2 else {"X-Api-Key": key}
            client.post(f"{running.url}/v1/echo", json=body, headers=header, timeout=30)
    wait_for(lambda: len(running.output.read_text().splitlines()) == times)


def test_a_key_is_in_no_file_page_or_export(upstream: str, tmp_path: Path) -> None:
    key = f"sk-{os.urandom(16).hex()}"
    running = Running(upstream, tmp_path / "traffic.jsonl", "--keep-bodies")
    ask_with(key, running, 2)
    shown = [running.stop(), running.output.read_text()]
    for options in ((), ("--json",), ("--html", "-"), ("--request", "1")):
        command = [sys.executable, "-m", "app", "prompts", str(running.output), *options]
        shown.append(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    assert all(shown[1:]) and not any(key in one for one in shown)


def test_memory_has_no_key_for_each_request(upstream: str, tmp_path: Path) -> None:
    """Freed strings are not erased, so some copies are left; their number does not grow with the requests."""
    key = f"sk-{os.urandom(16).hex()}"
    running = Running(upstream, tmp_path / "traffic.jsonl")
    try:
        ask_with(key, running, 60)
        try:
            found = copies_in(running.process.pid, key.encode())
        except OSError as error:
            pytest.skip(f"the proxy's memory cannot be read: {error}")
    finally:
        running.stop()
    assert found < 60  # a header and a body of each request would be 120


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells of a process on Linux alone")
def test_the_process_allows_no_memory_dump(upstream: str, tmp_path: Path) -> None:
    running = Running(upstream, tmp_path / "traffic.jsonl")
    try:
        limits = Path(f"/proc/{running.process.pid}/limits").read_text()
        assert re.search(r"Max core file size +0 +0", limits)
        program = "from app.proxy.dumps import *; forbid_dumps(); print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
        command = [sys.executable, "-c", program]  # PR_GET_DUMPABLE
        assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout == "0\n"
    finally:
        running.stop()
