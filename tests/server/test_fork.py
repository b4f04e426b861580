"""Forks and comparisons of runs over the wire, on a small random model."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from msgspec.structs import replace

from app.ground.settings import ServerSettings
from app.models.live_model import LiveModel
from engine.config import EngineConfig
from engine.trace import codec
from engine.trace.operations import Choose, Sample
from engine.trace.records import StepRecord, Timing
from tests.server.conftest import Client, Server, wait_for
from tests.unit.engine.runs import tiny_llama

SAMPLING = {"max_tokens": 10, "ignore_eos": True}


@pytest.fixture
def make_live(make_server: Callable[..., Server]) -> Callable[..., Server]:
    """Make servers over a real engine."""

    def make(**fields: Any) -> Server:
        settings = ServerSettings(config=EngineConfig(block_size=4, num_blocks=64), **fields)
        return make_server(LiveModel(tiny_llama(), False, settings), config=settings.config, **fields)

    return make


@pytest.fixture
def server(make_live: Callable[..., Server], tmp_path: Path) -> Server:
    return make_live(data_dir=tmp_path / "data")


def perform(client: Client, theater: str, **sampling: Any) -> int:
    """Run two requests to their ends: record 0 is the submission, then a step for each token."""
    prompts = [{"text": "hello sea", "request_id": "a"}, {"text": "moon", "request_id": "b"}]
    client.do("submit", theater=theater, prompts=prompts, sampling={**SAMPLING, **sampling})
    client.do("step", theater=theater, count=100)
    return int(client.do("pause", theater=theater)["status"]["num_records"])


def records_of(client: Client, theater: str) -> list[StepRecord]:
    got = client.do("read", theater=theater, **{"from": 0, "to": 256})["records"]
    return [replace(codec.decode(r, StepRecord), timing=Timing(at=0), has_capture=False) for r in got]


def settled(client: Client, server: Server, theater: str) -> dict[str, Any]:
    """Return the session's status once no rerun is in progress."""

    def status() -> dict[str, Any]:
        theaters = requests.get(f"{server.url}/api/theaters").json()["theaters"]
        return dict(next(t["status"] for t in theaters if t["theater"] == theater))

    wait_for(lambda: not status()["fork"]["active"])
    return status()


def compared(server: Server, a: str, b: str) -> dict[str, Any]:
    answer = requests.get(f"{server.url}/api/compare", params={"a": a, "b": b})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_a_fork_repeats_records_then_diverges(server, client, theater):
    perform(client, theater)
    original = records_of(client, theater)
    output = next(o for o in original[4].outputs if o.seq_id == 1)
    other = output.top[1].token_id
    change = {"kind": "token", "seq_id": 1, "token_id": other}
    made = client.do("fork", theater=theater, at=4, change=change, name="what if")
    assert made["source"] == {"theater": theater, "epoch": 0, "at": 4}
    assert made["theater"] != theater and made["epoch"] == 0 and made["num_records"] >= 5
    status = settled(client, server, made["theater"])
    assert status["fork"] == {
        "source": theater, "epoch": 0, "at": 4, "change": "token", "expected": len(original) + 1, "forked": True,
        "active": False, "left_out": [],
    }  # fmt: skip
    assert (status["error"], status["mode"], status["unfinished"]) == (None, "paused", 0)
    fork = records_of(client, made["theater"])
    assert fork[:4] == original[:4]
    assert fork[4].kind == "adjust" and isinstance(fork[4].ops[0], Choose)
    (sample,) = [op for op in fork[5].ops if isinstance(op, Sample) and op.seq_id == 1]
    assert (sample.token_id, sample.sampled_token_id) == (other, output.token_id)
    # and it is a theater like any other: joined, submitted to, reset
    joined = client.do("join", theater=made["theater"])
    assert joined["num_records"] == len(fork)
    client.do("submit", theater=made["theater"], prompts=[{"text": "more"}], sampling=SAMPLING)
    assert client.do("step", theater=made["theater"], count=2)["performed"] == 2
    client.do("reset", theater=made["theater"])
    wait_for(lambda: any(s["theater"] == made["theater"] and s["epoch"] == 1 for s in client.statuses))
    assert [s for s in client.statuses if s["theater"] == made["theater"]][-1]["fork"] is None


def test_the_comparison_of_a_run_and_its_fork(server, client, theater):
    perform(client, theater)
    original = records_of(client, theater)
    other = next(o for o in original[4].outputs if o.seq_id == 1).top[1].token_id
    fork = client.do("fork", theater=theater, at=4, change={"kind": "token", "seq_id": 1, "token_id": other})["theater"]
    settled(client, server, fork)
    found = compared(server, theater, fork)
    assert [(r["theater"], r["epoch"], r["num_records"]) for r in found["runs"]] == [
        (theater, 0, len(original)),
        (fork, 0, len(original) + 1),
    ]
    assert (found["first_op"]["record"], found["first_op"]["op"]) == (4, 0)
    assert (found["first_op"]["kind_a"], found["first_op"]["b"]["type"]) == ("step", "choose")
    first = found["first_token"]
    assert (first["request_id"], first["a"]["record"], first["b"]["record"]) == ("b", 4, 5)
    assert first["b"]["token_id"] == other and bytes.fromhex(first["b"]["token_bytes"])
    pairs = {p["request_id"]: p for p in found["sequences"]}
    assert (pairs["a"]["equal_tokens"], pairs["b"]["equal_tokens"]) == (10, 3)
    # two prompts of 9 and 4 characters, ten tokens each: 18 and 13 slots are 5 + 4 blocks of 4
    assert found["a"]["totals"]["output_tokens"] == 20
    assert found["a"]["totals"]["computed_tokens"] == 9 + 4 + 2 * 9
    assert found["a"]["totals"]["blocks_peak"] == 5 + 4
    # repeated it is the same answer, and after another step it is a new one
    assert compared(server, theater, fork) == found
    client.do("submit", theater=theater, prompts=[{"text": "x"}], sampling=SAMPLING)
    assert compared(server, theater, fork)["runs"][0]["num_records"] == len(original) + 1


def test_other_settings_play_the_same_inputs_from_the_beginning(server, client, theater):
    perform(client, theater)
    made = client.do("fork", theater=theater, at=0, change={"kind": "config", "config": {"block_size": 8}})
    settled(client, server, made["theater"])
    found = compared(server, theater, made["theater"])
    assert [(s["name"], s["a"], s["b"]) for s in found["settings"]] == [("block_size", 4, 8)]
    assert found["first_token"] is None and [p["equal_tokens"] for p in found["sequences"]] == [10, 10]
    assert found["b"]["totals"]["blocks_peak"] == 3 + 2  # 18 and 13 slots in blocks of 8
    error = client.refused("fork", theater=theater, at=3, change={"kind": "config", "config": {"block_size": 8}})
    assert error["code"] == "refused" and "first step" in error["message"]


def test_a_fork_can_stop_at_the_change(server, client, theater):
    perform(client, theater)
    made = client.do("fork", theater=theater, at=4, change={"kind": "abort", "request_id": "a"}, follow=False)
    assert settled(client, server, made["theater"])["num_records"] == 5
    assert client.do("step", theater=made["theater"])["performed"] == 1


def test_refusals_leave_no_theater_behind(server, client, theater):
    length = perform(client, theater)
    for at, change, words in (
        (length + 1, None, "is impossible"),
        (4, {"kind": "token", "seq_id": 9, "token_id": 5}, "sequence 9"),
        (4, {"kind": "token", "seq_id": 0, "token_id": 128}, "no token 128"),
        (4, {"kind": "abort", "request_id": "nobody"}, "'nobody'"),
        (4, {"kind": "sampling", "request_id": "a", "sampling": {"n": 2, "temperature": 1.0}}, "n cannot change after"),
        (4, {"kind": "request", "text": ""}, "empty"),
        (0, {"kind": "config", "config": {"num_blocks": 0}}, "num_blocks"),
        (0, {"kind": "config", "config": {"num_blocks": 3}}, "max_model_len"),
    ):
        error = client.refused("fork", theater=theater, at=at, change=change)
        assert error["code"] == "refused" and words in error["message"], error
    for at, change in (
        (4, {"kind": "magic"}),
        (-1, None),
        (4, {"kind": "token", "seq_id": 0}),
        (0, {"kind": "config", "config": {"blok": 3}}),
    ):
        assert client.refused("fork", theater=theater, at=at, change=change)["code"] == "bad_request"
    assert client.refused("fork", theater="nobody", at=0, change=None)["code"] == "unknown_theater"
    assert client.refused("fork", theater=theater, at=0, change=None, epoch=3)["code"] == "stale_epoch"
    assert [t.session_id for t in server.theaters.all()] == [theater]


def test_a_mismatch_names_its_record(server, client, theater, monkeypatch):
    """The engine samples another token in its fifth step: the rerun reports record 5 and stops."""
    perform(client, theater)
    from engine.model.sampling import Sampler

    sample, calls = Sampler.sample, iter(range(1000))

    def sample_otherwise(*given: Any) -> Any:
        found = sample(*given)
        return [replace(f, token_id=f.token_id ^ 1) for f in found] if next(calls) == 4 else found

    monkeypatch.setattr(Sampler, "sample", sample_otherwise)
    error = client.refused("fork", theater=theater, at=8, change=None)
    assert error["code"] == "refused"
    assert error["message"].startswith("the re-run does not match the log at record 5, operation ")
    assert "sample seq_id=0" in error["message"]
    assert [t.session_id for t in server.theaters.all()] == [theater]


def test_reruns_do_not_block_other_sessions(server, client, theater, monkeypatch):
    perform(client, theater, max_tokens=40)  # after the fork it continues for five seconds
    from engine.lab.rerun import Rerun

    advance = Rerun.advance

    def slowly(self: Any) -> bool:
        time.sleep(0.15)
        return advance(self)

    monkeypatch.setattr(Rerun, "advance", slowly)
    made = client.do("fork", theater=theater, at=6, change={"kind": "abort", "request_id": "a"})["theater"]
    statuses = [s for s in client.statuses if s["theater"] == made]
    assert (
        statuses and not statuses[0]["fork"]["forked"] and statuses[0]["fork"]["active"]
    )  # 6 records at 0.15 s: reported at 0.25 s
    done = [s["num_records"] for s in statuses]
    assert done == sorted(done) and len(set(done)) > 1  # a quarter of a second may bring nothing on a busy machine
    assert client.refused("submit", theater=made, prompts=[{"text": "x"}])["code"] == "busy"
    assert client.refused("abort", theater=made, request_id="b")["code"] == "busy"
    client.do("submit", theater=theater, prompts=[{"text": "x"}], sampling=SAMPLING)
    assert client.do("step", theater=theater)["performed"] == 1
    # pausing it ends it where it is: then it is a theater like any other
    status = client.do("pause", theater=made)["status"]
    assert not status["fork"]["active"] and status["fork"]["forked"]
    client.do("submit", theater=made, prompts=[{"text": "x"}], sampling=SAMPLING)


def test_a_fork_paused_before_its_change_is_refused(server, client, theater, monkeypatch):
    perform(client, theater)
    from engine.lab.rerun import Rerun

    advance = Rerun.advance

    def paused_at_three(self: Any) -> bool:
        if self.num_done == 3:
            (fork,) = [t for t in server.theaters.all() if t.session_id != theater]
            fork._commands._queue.put_nowait(command_of(fork))
        return advance(self)

    def command_of(fork: Any) -> Any:
        from concurrent.futures import Future

        from app.session.command_queue import _Command

        return _Command(fork._loop.pause, Future())

    monkeypatch.setattr(Rerun, "advance", paused_at_three)
    error = client.refused("fork", theater=theater, at=8, change=None)
    assert error["code"] == "refused" and "stopped" in error["message"]
    assert [t.session_id for t in server.theaters.all()] == [theater]


def test_the_source_may_be_reset_while_it_is_read(server, client, theater, monkeypatch):
    length = perform(client, theater)
    from engine.lab.rerun import Rerun

    advance = Rerun.advance
    was_reset: list[None] = []

    def reset_first(self: Any) -> bool:
        if not was_reset:
            was_reset.append(server.theaters.get(theater).run.retire())
        return advance(self)

    monkeypatch.setattr(Rerun, "advance", reset_first)
    made = client.do("fork", theater=theater, at=length, change=None)
    assert settled(client, server, made["theater"])["num_records"] == length


def test_runs_too_long_are_not_rerun(make_live):
    server = make_live(max_count=8)
    client = server.client()
    theater = client.do("create")["theater"]
    client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling=SAMPLING)
    client.do("step", theater=theater, count=8)
    error = client.refused("fork", theater=theater, at=1, change=None)
    assert error["code"] == "refused" and "9 records" in error["message"] and "8" in error["message"]


def test_a_recording_can_be_forked_and_compared(server, client, theater):
    perform(client, theater)
    client.do("record", theater=theater, name="kept")
    client.do("record_stop", theater=theater)
    listed = requests.get(f"{server.url}/api/recordings").json()["recordings"]
    (recording,) = [r["id"] for r in listed if r["source"] == "library"]
    made = client.do("fork", theater=recording, at=6, change={"kind": "abort", "request_id": "b"})
    settled(client, server, made["theater"])
    assert records_of(client, made["theater"])[:6] == records_of(client, theater)[:6]
    found = compared(server, recording, made["theater"])
    assert found["first_op"]["record"] == 6 and found["first_token"]["request_id"] == "b"
    found = compared(server, recording, theater)
    assert found["first_op"] is None and found["first_token"] is None


def test_impossible_comparisons_are_refused(server, theater):
    for query, code in (
        ("", "bad_request"),
        (f"a={theater}", "bad_request"),
        (f"a={theater}&b=nobody", "unknown_theater"),
    ):
        answer = requests.get(f"{server.url}/api/compare?{query}")
        assert answer.json()["error"]["code"] == code and answer.status_code in (400, 404)


def test_a_reset_after_a_fork_drops_its_ablation(server, client, theater):
    """An ablation refers to a record of its own run, so a new run has none."""
    perform(client, theater)
    change = {"kind": "ablate", "layer": 0, "head": None}
    made = client.do("fork", theater=theater, at=4, change=change)["theater"]
    settled(client, server, made)
    assert server.theaters.get(made).run.config.ablate == "0@4"
    client.do("reset", theater=made)
    assert server.theaters.get(made).run.config.ablate is None
    again = client.do("fork", theater=theater, at=4, change=change)["theater"]
    settled(client, server, again)
    client.do("configure", theater=again, config={"block_size": 8})
    assert server.theaters.get(again).run.config.ablate is None
