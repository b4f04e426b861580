"""Errors that would end a session's thread are reported to the client, and its place is freed."""

import gc

import pytest

from app.session.closing import Closing
from app.session.engine_loop import EngineLoop
from tests.server.conftest import Client, wait_for

TINY = [1e-10, 5e-324, 1e-300, 1e-4]


def begun(client: Client, max_tokens: int = 900) -> str:
    """Create a session with a sequence to compute."""
    theater = str(client.do("create")["theater"])
    client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": max_tokens})
    return theater


@pytest.mark.parametrize("speed", TINY)
def test_an_impossible_speed_is_refused_and_the_theater_continues(client, theater, speed):
    client.do("submit", theater=theater, prompts=[{"text": "abc"}])
    error = client.refused("run", theater=theater, speed=speed)
    assert error["code"] == "bad_request" and "speed" in error["message"]
    assert client.do("step", theater=theater)["performed"] == 1


def test_the_slowest_speed_waits_in_pieces_and_is_ended_at_once(server, client):
    theater = begun(client)
    client.do("run", theater=theater, speed=0.01)  # a step every hundred seconds
    wait_for(lambda: len(server.theaters.get(theater).run.log) == 2)  # the submission and the first step
    assert client.do("pause", theater=theater)["status"]["num_records"] == 2


def test_a_long_wait_is_split(server, client):
    """The queue bounds each single wait, whatever the pace."""
    theater = begun(client)
    server.theaters.get(theater).play(1e-10)
    wait_for(lambda: len(server.theaters.get(theater).run.log) == 2)
    assert client.do("pause", theater=theater)["status"]["mode"] == "paused"


def test_a_theater_whose_thread_fails_is_closed_with_the_reason_and_removed(make_server):
    server = make_server(max_theaters=2)
    client = server.client()
    for _ in range(5):  # more than there are places
        theater = begun(client)

        def broken() -> bool:
            raise OverflowError("timestamp too large")

        server.theaters.get(theater).run.engine.prefill_pending = broken
        error = client.refused("prefill", theater=theater)
        assert error["code"] == "unknown_theater" and "timestamp too large" in error["message"]
        wait_for(lambda: not server.theaters.all() and client.closed)
        closed = client.closed.pop()
        assert closed["theater"] == theater and "timestamp too large" in closed["reason"]
        assert client.refused("step", theater=theater)["code"] == "unknown_theater"
    wait_for(lambda: gc.collect() >= 0 and not server.model.engines)  # no reference is left: their pools are free


def test_a_session_that_fails_early_is_removed(make_server, monkeypatch):
    server = make_server(max_theaters=1)
    client = server.client()
    with monkeypatch.context() as broken:
        broken.setattr(EngineLoop, "seconds_to_next_step", lambda _: 1 / 0)
        assert client.refused("create")["code"] == "unknown_theater"
    assert not server.theaters.all()
    assert client.do("create")["ok"]


def test_joining_a_closing_session_is_refused(server, client, theater):
    closing = server.theaters.get(theater)
    closing.close(Closing("unused"))
    assert "it had no viewers for a while" in client.refused("join", theater=theater)["message"]
