"""The number of sessions is bounded, and idle ones are closed."""

import threading

import pytest

from app.ground.errors import AppError
from engine.trace.log import TraceWriter
from tests.server.conftest import wait_for


def is_gone(log: TraceWriter) -> bool:
    """Return whether a log is closed, since an unnamed file is deleted then."""
    try:
        return not log.header_bytes
    except ValueError:
        return True


def test_too_many_theaters(make_server):
    server = make_server(max_theaters=2)
    client = server.client()
    client.do("create")
    client.do("create")
    error = client.refused("create")
    assert error["code"] == "too_many_theaters" and "2" in error["message"]


def test_a_session_without_viewers_is_replaced(make_server):
    server = make_server(max_theaters=2, reclaim_seconds=0)
    client = server.client()
    old = client.do("create")["theater"]
    watched = client.do("create")["theater"]
    client.do("leave", theater=old)
    new = client.do("create")["theater"]
    assert {t.session_id for t in server.theaters.all()} == {watched, new}
    assert client.refused("step", theater=old)["code"] == "unknown_theater"


def test_idle_theaters_are_closed_and_their_logs_deleted(make_server):
    server = make_server(idle_seconds=2.0)
    client = server.client()
    kept = client.do("create")["theater"]
    left = client.do("create")["theater"]
    run = server.theaters.get(left).run
    client.do("leave", theater=left)
    wait_for(lambda: is_gone(run.log))
    assert [t.session_id for t in server.theaters.all()] == [kept]
    with pytest.raises(AppError, match="epoch 0 of this session is over"):
        run.engine  # noqa: B018


def test_viewers_are_notified_of_a_closed_session(server, client, theater):
    server.theaters.close()
    wait_for(lambda: client.closed)
    assert client.closed == [
        {"theater": theater, "cause": "shutdown", "detail": "", "reason": "the server is shutting down"}
    ]


def test_waiting_for_a_theater_in_a_long_step_is_bounded(server, client, theater, monkeypatch):
    """A step takes 2 s, and the shutdown waits 0.2 s: viewers are notified, and the session is abandoned and
    counted.
    """
    monkeypatch.setattr("app.session.session_manager.CLOSE_SECONDS", 0.2)
    server.model.step_seconds = 2.0
    client.do("submit", theater=theater, prompts=[{"text": "a"}])
    client.io.emit("step", {"theater": theater})
    wait_for(lambda: server.model.threads, "the beginning of the step")
    assert server.theaters.close() == 1
    wait_for(lambda: client.closed)


def test_others_step_while_a_session_is_built(server, client, theater, monkeypatch):
    """The engine being built waits for its instances' processes to read the weights."""
    is_built, build, building = threading.Event(), server.model.build, threading.Event()

    def wait(*given):
        building.set()
        assert is_built.wait(10)
        return build(*given)

    monkeypatch.setattr(server.model, "build", wait)
    client.do("submit", theater=theater, prompts=[{"text": "a"}])
    other = server.client()
    other.io.emit("create", {})
    assert building.wait(10)
    try:
        assert client.do("step", theater=theater)["performed"] == 1
    finally:
        is_built.set()
    wait_for(lambda: len(server.theaters.all()) == 2)


def test_a_reset_deletes_the_old_log(server, client, theater):
    log = server.theaters.get(theater).run.log
    client.do("reset", theater=theater)
    assert is_gone(log)


def test_a_reader_keeps_an_old_log_open_until_it_is_done(server, client, theater):
    client.do("submit", theater=theater, prompts=[{"text": "abc"}])
    run = server.theaters.get(theater).run
    with run.reading() as log:
        client.do("reset", theater=theater)
        assert log.record_bytes(0)
    assert is_gone(log)


def test_closing_deletes_everything(make_server):
    server = make_server()
    client = server.client()
    theater = client.do("create")["theater"]
    client.do("submit", theater=theater, prompts=[{"text": "a"}], sampling={"max_tokens": 900})
    client.do("run", theater=theater, speed=0)
    log = server.theaters.get(theater).run.log
    server.theaters.close()
    assert is_gone(log)
    server.theaters.close()  # again: nothing happens
