"""A class on several processes, through a real Redis: messages, failures, and recovery."""

import http.client
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from app.cli import main
from app.relay import wire
from app.relay.bus import server_channel
from engine.trace.log import TraceReader
from tests.conftest import ROOT
from tests.server.classes import OWNER, TOKEN, Member, Room
from tests.server.conftest import Client, Server, wait_for
from tests.server.redis_server import RedisServer
from tests.server.web_workers import Worker, WorkerProcess


@pytest.fixture
def room(redis_server: RedisServer, make_server: Callable[..., Server], tmp_path: Path) -> Room:
    return Room(make_server(token=TOKEN, message_queue=redis_server.url, data_dir=tmp_path / "data"))


@pytest.fixture
def make_worker(room: Room, redis_server: RedisServer) -> Iterator[Callable[..., Worker]]:
    workers: list[Worker] = []

    def make(**more: Any) -> Worker:
        workers.append(Worker(redis_server.url, **more))
        return workers[-1].linked()

    yield make
    for worker in workers:
        worker.close()


def comes_in(room: Room, url: str, cookie: str, **connect: Any) -> tuple[Member, dict[str, Any]]:
    """Open a follower's connection at that address, with its seat."""
    found = Member(url, headers={"Cookie": cookie}, **connect)
    room.server.clients.append(found)
    return found, found.do("class_enter", language="en")


def has(viewer: Client, count: int) -> None:
    """Wait until it has that many records."""
    wait_for(lambda: len(viewer.records()) == count, "the arrival of all records")


def led(member: Member, view: dict[str, str]) -> None:
    """Wait until the member has this view."""
    wait_for(lambda: member.last().get("view") == view)


def gone(client: Client) -> None:
    """Wait until its connection has ended."""
    wait_for(lambda: not client.io.connected, "the end of a connection")


def grow(room: Room, theater: str, tokens: int) -> int:
    """Return the number of records after the class's run has that many more tokens."""
    room.presenter.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": tokens})
    return int(room.presenter.do("step", theater=theater, count=tokens)["num_records"])


def log_of(room: Room, theater: str, folder: Path) -> list[bytes]:
    answer = requests.get(f"{room.server.url}/api/theaters/{theater}/trace", headers=OWNER)
    (folder / "trace").write_bytes(answer.content)
    with TraceReader(folder / "trace") as reader:
        return [reader.record_bytes(i) for i in range(len(reader))]


def test_all_workers_followers_see_the_bytes_of_the_log(room: Room, make_worker: Any, tmp_path: Path) -> None:
    """Each worker has three followers, one of them polling, and the server one; the presenter is at a worker, too."""
    workers = [make_worker(), make_worker()]
    theater = room.on_stage()
    followers = [comes_in(room, room.server.url, room.ticket())[0]]
    for worker in workers:
        for transports in (["websocket"], ["websocket"], ["polling"]):
            followers.append(comes_in(room, worker.url, room.ticket(), transports=transports)[0])
    for follower in followers:
        follower.do("join", theater=theater)
    count = grow(room, theater, 60)
    log = log_of(room, theater, tmp_path)
    assert len(log) == count
    for follower in followers:
        has(follower, count)
        assert follower.records() == log
    remote = Member(workers[0].url, headers=OWNER)
    room.server.clients.append(remote)
    remote.do("class_present", id=room.id, secret=room.secret, base=workers[0].url)
    remote.do("class_cast", id=room.id, theater=theater, view={"layer": "2"})
    for follower in followers:
        led(follower, {"layer": "2"})


def test_a_batch_is_sent_once_to_each_worker(room: Room, make_worker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = [make_worker(), make_worker()]
    theater = room.on_stage()
    followers = [comes_in(room, worker.url, room.ticket())[0] for worker in workers for _ in range(8)]
    for follower in followers:
        follower.do("join", theater=theater, captures=False)
    bus = room.server.app.extensions["kvtheater.relays"]._bus
    send = bus.send
    sent: list[bytes] = []

    def noted(channel: str, data: bytes) -> None:
        sent.append(data)
        send(channel, data)

    monkeypatch.setattr(bus, "send", noted)
    count = grow(room, theater, 40)
    for follower in followers:
        has(follower, count)
    frames = [frame for data in sent if (frame := wire.read_down(data))]
    packets = [one for frame in frames for one in frame.messages if isinstance(one, wire.Delivery)]
    last = followers[0].records()[-1]
    assert [len(one.clients or ()) for one in packets if last in one.packet] == [8, 8]


def test_followers_of_a_killed_worker_continue_at_another(
    room: Room, make_worker: Any, redis_server: RedisServer, tmp_path: Path
) -> None:
    """The other worker has each follower's part of the log and each answer once; nothing of the dead worker is left."""
    dying, other = WorkerProcess(redis_server.url), make_worker()
    theater = room.on_stage()
    room.presenter.do("class_ask", id=room.id, kind="number", text="?")
    tickets = [room.ticket() for _ in range(4)]
    before = []
    wait_for(lambda: requests.get(f"{dying.url}/api/model", headers=OWNER).ok)
    for i, ticket in enumerate(tickets):
        follower, _ = comes_in(room, dying.url, ticket)
        follower.do("join", theater=theater)
        follower.do("class_answer", poll=0, round=0, given=i)
        before.append(follower)
    had = grow(room, theater, 10)
    for follower in before:
        has(follower, had)
    dying.kill()
    count = grow(room, theater, 10)
    wait_for(lambda: not any(one.io.connected for one in before))
    for i, ticket in enumerate(tickets):
        follower, entered = comes_in(room, other.url, ticket)
        assert (entered["mine"]["seat"], entered["mine"]["answers"][0]["given"]) == (i, [i])
        follower.do("join", theater=theater, **{"from": had}, epoch=0)
        has(follower, count - had)
        assert before[i].records() + follower.records() == log_of(room, theater, tmp_path)
        follower.do("class_answer", poll=0, round=0, given=i)
    wait_for(lambda: room.presenter.desks[-1]["answered"] == 4)
    relays = room.server.app.extensions["kvtheater.relays"]
    wait_for(lambda: len(relays) == 1 and len(relays._relay_of) == 4, "the end of the dead worker")
    watching = room.server.theaters.watch(theater)
    wait_for(lambda: watching.status()["viewers"] == 5)  # with the presenter


def test_without_redis_the_class_goes_on_and_workers_come_back(
    room: Room, make_worker: Any, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients of the server itself notice nothing; the operator gets one sentence; a worker's page is told to wait."""
    worker = make_worker()
    theater = room.on_stage()
    room.presenter.do("class_ask", id=room.id, kind="number", text="?")
    ticket = room.ticket()
    away, _ = comes_in(room, worker.url, ticket)
    here, _ = comes_in(room, room.server.url, room.ticket())
    for one in (away, here):
        one.do("join", theater=theater)
    away.do("class_answer", poll=0, round=0, given=7)
    had = grow(room, theater, 5)
    has(away, had)
    redis_server.stop()
    wait_for(lambda: not away.io.connected, "the end of the worker's client")
    answer = requests.get(f"{worker.url}/socket.io/?EIO=4&transport=polling", headers={"Cookie": ticket})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "loading")
    count = grow(room, theater, 5)
    has(here, count)
    here.do("class_answer", poll=0, round=0, given=8)
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING and r.name == "app.relay.relays"]
    assert len(warnings) == 1 and redis_server.url in warnings[0] and "\n" not in warnings[0]
    redis_server.start()
    worker.linked()
    again, entered = comes_in(room, worker.url, ticket)
    assert entered["mine"]["answers"][0]["given"] == [7]
    again.do("join", theater=theater, **{"from": had}, epoch=0)
    has(again, count - had)
    wait_for(lambda: room.presenter.desks[-1]["answered"] == 2)


def test_a_worker_finds_a_server_that_was_started_anew(
    room: Room, make_worker: Any, make_server: Callable[..., Server], redis_server: RedisServer
) -> None:
    worker = make_worker()
    follower, _ = comes_in(room, worker.url, room.ticket())
    room.server.close()
    room.server.close = lambda: None  # type: ignore[method-assign]  # once is enough
    wait_for(lambda: not worker.link.is_linked and not follower.io.connected)
    anew = Room(make_server(token=TOKEN, message_queue=redis_server.url))
    worker.linked()
    assert comes_in(anew, worker.url, anew.ticket())[1]["state"]["id"] == anew.id


@pytest.mark.parametrize("way", ["up", "down"])
def test_after_a_lost_message_a_worker_starts_over(
    room: Room, make_worker: Any, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lost message may be a record or a new client, so nothing is trusted, and all clients rejoin."""
    worker = make_worker()
    ticket = room.ticket()
    follower, _ = comes_in(room, worker.url, ticket)
    bus = worker.link._bus if way == "up" else room.server.app.extensions["kvtheater.relays"]._bus
    send = bus.send
    lost: list[bytes] = []

    def lossy(channel: str, data: bytes) -> None:
        if lost or (not wire.read_up(data) and not wire.read_down(data)):
            send(channel, data)
        else:
            lost.append(data)

    monkeypatch.setattr(bus, "send", lossy)
    follower.io.emit("class_lost", {"lost": True})
    wait_for(lambda: not follower.io.connected, "the end of what may be wrong")
    assert lost
    worker.linked()
    again, _ = comes_in(room, worker.url, ticket)
    again.do("class_lost", lost=True)


def test_invalid_frames_are_ignored(room: Room, make_worker: Any, redis_server: RedisServer) -> None:
    """A pickle and a frame of an unknown sender have no effect."""
    import pickle

    import redis

    worker = make_worker()
    follower, _ = comes_in(room, worker.url, room.ticket())
    stranger = redis.Redis.from_url(redis_server.url)
    packet = wire.EventPacket(1, 1, b"\x80")
    for data in (
        b"",
        pickle.dumps({"method": "emit"}),
        wire.encode(wire.UpFrame("nobody", 1, 0, [packet])),
        wire.encode(wire.UpFrame(worker.link._name, 0, 5, [packet])),
    ):
        assert stranger.publish(server_channel(redis_server.url), data) == 1
    follower.do("class_lost", lost=True)
    stranger.close()


def test_a_slow_follower_of_a_worker_delays_no_other(
    room: Room, make_worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bound in ("WINDOW", "ACK_BYTES"):
        monkeypatch.setattr(f"app.session.broadcast.{bound}", 1)  # a byte: each batch is waited for
    worker = make_worker()
    theater = room.on_stage()
    slow, quick = (comes_in(room, worker.url, room.ticket())[0] for _ in range(2))
    for one in (slow, quick):
        one.do("join", theater=theater)
    slow.hold.clear()  # it gets one batch and does not acknowledge it
    count = grow(room, theater, 200)
    has(quick, count)
    assert len(slow.batches) == 1
    slow.hold.set()
    has(slow, count)
    assert slow.records() == quick.records()


def test_workers_forward_other_http_requests(room: Room, make_worker: Any, tmp_path: Path) -> None:
    """Bodies pass both ways, also chunked ones, with headers, redirects, refusals, and the client's address."""
    worker = make_worker()
    theater = room.on_stage()
    grow(room, theater, 5)
    own, by = (
        requests.get(f"{url}/api/theaters/{theater}/trace", headers=OWNER) for url in (room.server.url, worker.url)
    )
    assert by.content == own.content and by.headers["Content-Type"] == own.headers["Content-Type"]
    assert requests.get(f"{worker.url}/api/theaters/{theater}/trace").status_code == 401
    head = requests.head(f"{worker.url}/api/model", headers=OWNER)
    assert head.ok and not head.content
    assert requests.get(f"{worker.url}/api/nothing", headers=OWNER).status_code == 404
    page = requests.get(f"{worker.url}/?token={TOKEN}&lang=zh", allow_redirects=False)
    assert (page.status_code, page.headers["Location"]) == (303, "./?lang=zh")
    assert requests.get(f"{worker.url}/?token=wrong", allow_redirects=False).status_code == 401
    joined = requests.get(f"{worker.url}{room.presenting['join']}", allow_redirects=False)
    assert (joined.status_code, joined.headers["Location"]) == (303, f"../?class={room.id}")
    answer = requests.post(f"{worker.url}/api/recordings?name=a", data=own.content, headers=OWNER)
    assert answer.status_code == 201, answer.text
    kept = requests.get(f"{worker.url}/api/recordings/{answer.json()['id']}/trace", headers=OWNER)
    assert kept.content == own.content
    pieces = (own.content[at : at + 1000] for at in range(0, len(own.content), 1000))
    answer = requests.post(f"{worker.url}/api/recordings", data=pieces, headers=OWNER)
    assert answer.json()["error"]["message"].startswith("an upload needs a Content-Length"), (
        answer.text
    )  # the server's words


def test_a_local_proxy_is_trusted_for_its_clients_addresses(room: Room, make_worker: Any) -> None:
    """Clients behind a local nginx count by their own addresses, at the entry and in their seats; remote proxies are
    not trusted.
    """
    worker = make_worker()
    for i in range(3):
        named = {"X-Forwarded-For": f"1.2.3.4, 10.0.0.{i}"}
        door = http.client.HTTPConnection("127.0.0.1", worker.port, timeout=20)
        door.request("GET", "/j/zzzzzz", headers=named)
        assert door.getresponse().status == 404
        found = Member(worker.url, headers={"Cookie": room.ticket(), **named})
        room.server.clients.append(found)
        found.do("class_enter", language="en")
    classrooms = room.server.app.extensions["kvtheater.classrooms"]
    addresses = ["10.0.0.0", "10.0.0.1", "10.0.0.2"]
    assert list(classrooms._guesses) == addresses
    assert [seat.address for seat in classrooms.get(room.id).seats()] == addresses


def test_a_flood_at_a_worker_is_answered_busy_or_slowed(room: Room, make_worker: Any) -> None:
    """The worker's own limits apply: the server gets no more than a client may have in progress."""
    worker = make_worker()
    follower, _ = comes_in(room, worker.url, room.ticket())
    answers: list[Any] = []
    for _ in range(400):
        follower.io.emit("tokenize", {"text": "x" * 5000}, callback=answers.append)
    wait_for(
        lambda: (
            any(not one["ok"] and one["error"]["code"] == "busy" for one in answers)
            or len(answers) == 400
            or not follower.io.connected
        )
    )
    comes_in(room, worker.url, room.ticket())[0].do("class_lost", lost=True)


def test_a_worker_of_another_version_is_sent_away(
    room: Room, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.relay.link.__version__", "0.0.1")
    worker = Worker(redis_server.url)
    wait_for(lambda: worker.refused)
    assert "install the same version" in worker.refused[0] and not worker.link.is_linked
    worker.close()


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_a_missing_message_queue_is_one_sentence(command: str, capsys: Any) -> None:
    pytest.importorskip("redis")
    for url, message in (("redis://127.0.0.1:1", "no Redis answers"), ("http://x", "is not a Redis URL")):
        assert main([command, "--message-queue", url, "--port", "0"]) == 2
        error = capsys.readouterr().err
        assert message in error and "Traceback" not in error and error.count("\n") <= 2
    assert main([command, "--message-queue", "redis://user:hush@127.0.0.1:1", "--port", "0"]) == 2
    assert "hush" not in capsys.readouterr().err


def test_two_servers_cannot_share_a_message_queue(room: Room, redis_server: RedisServer, capsys: Any) -> None:
    assert main(["serve", "--message-queue", redis_server.url, "--port", "0"]) == 2
    assert "another server uses" in capsys.readouterr().err


@pytest.mark.slow
def test_a_worker_is_small() -> None:
    """A worker has neither torch nor a model, so it is smaller and starts at once."""
    code = "import sys, app.server.worker; print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
