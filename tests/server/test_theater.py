"""Client commands of a session, over a real socket."""

import time

import requests

from engine.cache.guards import MisuseError
from engine.trace import codec
from engine.trace.operations import Submit
from engine.trace.records import Header, StepRecord
from tests.server.conftest import Client, wait_for


def test_create_gives_an_empty_log_with_its_header(client):
    made = client.do("create", config={"block_size": 8}, name="Übung 一")
    header = codec.decode(made["header"], Header)
    assert header.engine["block_size"] == 8
    assert header.engine["num_blocks"] == 256  # the server's default stays
    assert (made["epoch"], made["num_records"], made["from"]) == (0, 0, 0)
    assert made["status"]["mode"] == "paused"
    assert made["status"]["error"] is None


def test_prefill_stops_when_no_sequence_can_be_admitted(client):
    """The only place is taken by the first prompt; the next step only decodes it, and prefill ends there."""
    theater = client.do("create", config={"max_num_seqs": 1})["theater"]
    client.do("submit", theater=theater, prompts=[{"text": "abc"}, {"text": "de"}], sampling={"max_tokens": 50})
    assert client.do("prefill", theater=theater)["performed"] == 2


def test_submit_prefill_and_step(client, theater):
    made = client.do("submit", theater=theater, prompts=[{"text": "abc", "request_id": "r"}, {"text": "xyz"}])
    assert made["requests"] == [
        {"request_id": "r", "seq_id": 0, "num_prompt_tokens": 3},
        {"request_id": "request-1", "seq_id": 1, "num_prompt_tokens": 3},
    ]
    # the fake prefills one sequence a step: two steps for two prompts, after the record of the submission
    assert client.do("prefill", theater=theater) == {"ok": True, "num_records": 3, "performed": 2}
    assert client.do("prefill", theater=theater)["performed"] == 0
    assert client.do("step", theater=theater, count=1)["num_records"] == 4
    wait_for(lambda: len(client.records()) == 4)
    first = codec.decode(client.records()[0], StepRecord)
    assert first.kind == "submit"


def test_step_ends_when_nothing_is_left(client, theater):
    client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 3})
    assert client.do("step", theater=theater, count=100)["performed"] == 3
    assert client.do("step", theater=theater)["performed"] == 0


def test_the_text_is_normalized_as_tokenize_says(client, theater):
    shown = client.do("tokenize", text="a，b")
    assert shown["text"] == "a,b"
    assert shown["token_bytes"] == [b"a", b",", b"b"]
    made = client.do("submit", theater=theater, prompts=[{"text": "a，b"}])
    assert made["requests"][0]["num_prompt_tokens"] == len(shown["token_ids"]) == 3


def test_two_clients_that_step_at_once_make_one_step(server, client, theater):
    other = server.client()
    other.do("join", theater=theater)
    client.do("submit", theater=theater, prompts=[{"text": "abc"}])
    server.model.step_seconds = 0.05
    results: list[dict[str, int]] = []
    for c in (client, other):  # both are on their way before either is answered
        c.io.emit("step", {"theater": theater, "expect": 1}, callback=results.append)
    wait_for(lambda: len(results) == 2)
    assert sorted(r["performed"] for r in results) == [0, 1]
    assert [r["num_records"] for r in results] == [2, 2]
    wait_for(lambda: len(client.records()) == 2 == len(other.records()))
    assert client.records() == other.records()


def test_run_at_a_speed_and_pause_at_once(server, client, theater):
    client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 500})
    started = time.monotonic()
    assert client.do("run", theater=theater, speed=40)["status"]["mode"] == "running"
    wait_for(lambda: len(client.records()) >= 13)
    assert time.monotonic() - started >= 10 / 40  # 12 steps at 40 a second, with room for the first ones
    requested_at = time.monotonic()
    status = client.do("pause", theater=theater)["status"]
    assert time.monotonic() - requested_at < 5
    assert status["mode"] == "paused"
    count = status["num_records"]
    time.sleep(0.1)
    assert client.do("step", theater=theater, expect=count)["performed"] == 1  # nothing happened meanwhile


def test_a_running_theater_waits_for_work_and_refuses_steps(client, theater):
    client.do("run", theater=theater, speed=0)
    assert client.refused("step", theater=theater)["code"] == "busy"
    client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 4})
    wait_for(lambda: len(client.records()) == 5)
    wait_for(lambda: client.statuses[-1]["unfinished"] == 0)
    assert client.statuses[-1]["mode"] == "running"


def test_pause_ends_a_long_step(server, client, theater):
    server.model.step_seconds = 0.02
    client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 900})
    answers: list[dict[str, int]] = []
    client.io.emit("step", {"theater": theater, "count": 500}, callback=answers.append)
    wait_for(lambda: len(client.records()) > 2)
    client.do("pause", theater=theater)
    wait_for(lambda: answers)
    assert 0 < answers[0]["performed"] < 500


def test_abort(client, theater):
    client.do("submit", theater=theater, prompts=[{"text": "abc", "request_id": "r"}])
    assert client.do("abort", theater=theater, request_id="r")["num_records"] == 2
    error = client.refused("abort", theater=theater, request_id="r")
    assert error["code"] == "refused" and "'r'" in error["message"]


def test_reset_starts_a_new_epoch_for_every_viewer(server, client, theater):
    other = server.client()
    other.do("join", theater=theater)
    client.do("submit", theater=theater, prompts=[{"text": "abc"}])
    wait_for(lambda: other.records())
    begun = client.do("reset", theater=theater)
    assert begun["epoch"] == 1
    client.do("submit", theater=theater, prompts=[{"text": "xyz"}])
    wait_for(lambda: other.records(epoch=1) and client.records(epoch=1))
    assert other.resets[0]["header"] == begun["header"]
    assert other.log.index("reset") < len(other.log) - 1 - other.log[::-1].index("records")
    (op,) = codec.decode(other.records(epoch=1)[0], StepRecord).ops
    assert isinstance(op, Submit) and op.prompt_token_ids == list(b"xyz")


def test_configure_keeps_the_other_settings_of_the_theater(client, theater):
    client.do("configure", theater=theater, config={"num_blocks": 32, "max_num_seqs": 3})
    client.do("configure", theater=theater, config={"strategy": "contiguous", "max_model_len": 64})
    begun = client.do("configure", theater=theater, config={"strategy": "paged"})
    engine = codec.decode(begun["header"], Header).engine
    assert begun["epoch"] == 3
    # contiguous made one block of max_model_len; going back to paged restores the requested block size
    assert [engine[k] for k in ("block_size", "num_blocks", "max_num_seqs", "strategy")] == [4, 32, 3, "paged"]


def test_a_configuration_that_cannot_work_changes_nothing(server, client, theater):
    client.do("submit", theater=theater, prompts=[{"text": "abc"}])
    error = client.refused("configure", theater=theater, config={"block_size": 0})
    assert error["code"] == "refused" and "block_size must be at least 1, not 0" in error["message"]
    assert client.do("step", theater=theater)["num_records"] == 2
    assert client.refused("create", config={"block_size": 0})["code"] == "refused"
    assert len(server.theaters.all()) == 1


def test_refused_prompts_say_the_numbers_and_change_nothing(client, theater):
    client.do("configure", theater=theater, config={"max_model_len": 8})
    error = client.refused("submit", theater=theater, prompts=[{"text": "ok"}, {"text": "far too long"}])
    assert error["code"] == "refused" and "12 tokens" in error["message"] and "8" in error["message"]
    assert "empty" in client.refused("submit", theater=theater, prompts=[{"text": ""}])["message"]
    assert client.do("step", theater=theater) == {"ok": True, "num_records": 0, "performed": 0}


def kinds(client: Client) -> list[tuple[str, int]]:
    return [(record.kind, record.step) for record in (codec.decode(each, StepRecord) for each in client.records())]


def test_a_prompt_is_submitted_after_its_number_of_steps(client, theater):
    prompts = [{"text": "abc"}, {"text": "abcd", "after_steps": 2}]
    answer = client.do("submit", theater=theater, prompts=prompts, sampling={"max_tokens": 6})
    assert [request["num_prompt_tokens"] for request in answer["requests"]] == [3]
    client.do("run", theater=theater, speed=0)
    wait_for(lambda: len(client.records()) >= 5)
    assert kinds(client)[:5] == [("submit", 0), ("step", 1), ("step", 2), ("submit", 2), ("step", 3)]


def test_a_delayed_prompt_is_submitted_at_once_if_the_engine_is_idle(client, theater):
    prompts = [{"text": "ab"}, {"text": "abc", "after_steps": 1000}]
    client.do("submit", theater=theater, prompts=prompts, sampling={"max_tokens": 2})
    client.do("step", theater=theater, count=3)
    wait_for(lambda: len(client.records()) == 5)
    assert kinds(client) == [("submit", 0), ("step", 1), ("step", 2), ("submit", 2), ("step", 3)]


def test_a_delayed_prompt_is_checked_at_once_and_removed_by_a_reset(client, theater):
    client.do("configure", theater=theater, config={"max_model_len": 8})
    late = {"text": "far too long", "after_steps": 1}
    assert "12 tokens" in client.refused("submit", theater=theater, prompts=[{"text": "ok"}, late])["message"]
    assert client.do("step", theater=theater)["num_records"] == 0
    client.do("submit", theater=theater, prompts=[{"text": "ok"}, {"text": "late", "after_steps": 1}])
    client.do("reset", theater=theater)
    client.do("submit", theater=theater, prompts=[{"text": "ok"}])
    assert client.do("step", theater=theater, count=1)["num_records"] == 2


def test_a_theater_takes_a_bounded_number_of_sequences(make_server):
    client = make_server(max_unfinished=3).client()
    theater = client.do("create")["theater"]
    client.do("submit", theater=theater, prompts=[{"text": "a"}, {"text": "b"}])
    error = client.refused("submit", theater=theater, prompts=[{"text": "c"}, {"text": "d"}])
    assert error["code"] == "refused" and "4" in error["message"] and "3" in error["message"]


def test_an_error_in_a_step_pauses_and_loses_nothing(server, client, theater):
    client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 20})
    server.model.fail_at = 5
    client.do("run", theater=theater, speed=0)
    wait_for(lambda: client.statuses[-1]["error"])
    status = client.statuses[-1]
    assert status["mode"] == "paused"
    assert status["error"] == "the step failed: the fake device caught fire"
    assert status["said"] == {"zh": "这一步失败了：the fake device caught fire"}
    wait_for(lambda: len(client.records()) == 6)
    assert client.do("step", theater=theater)["performed"] == 1
    wait_for(lambda: client.statuses[-1]["error"] is None)


def test_status_changes_after_a_record_are_sent(server, client, theater):
    client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 1})
    server.theaters.get(theater).run.full_log.subscribe(lambda record: time.sleep(0.4))  # the broadcast goes first
    time.sleep(0.2)  # a status is due by now
    client.do("step", theater=theater)
    wait_for(lambda: client.statuses[-1]["unfinished"] == 0)


def test_an_error_in_a_requested_step_is_its_answer(server, client, theater):
    client.do("submit", theater=theater, prompts=[{"text": "abc"}])
    server.model.fail_at = 0
    assert client.refused("step", theater=theater)["code"] == "internal"


def test_focus_reaches_the_engine_and_survives_a_reset(server, client, theater):
    client.do("focus", theater=theater, layers=[1], heads=None)
    client.do("reset", theater=theater)
    assert server.theaters.get(theater).run.engine.focused == ([1], None)
    assert "2" in client.refused("focus", theater=theater, layers=[2], heads=None)["message"]


def test_read_gives_any_range(client, theater):
    client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 9})
    client.do("step", theater=theater, count=9)
    wait_for(lambda: len(client.records()) == 10)
    got = client.do("read", theater=theater, **{"from": 2, "to": 5}, captures=True)
    assert got["first"] == 2 and got["records"] == client.records()[2:5]
    assert all(got["captures"])
    beyond = client.do("read", theater=theater, **{"from": 8, "to": 99})
    assert beyond["records"] == client.records()[8:] and beyond["captures"] == [None, None]
    assert client.do("read", theater=theater, **{"from": 50, "to": 60})["records"] == []


def test_the_engine_is_touched_by_one_thread(server, client, theater):
    other = server.client()
    client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 50})
    for c in (client, other, client):
        c.do("step", theater=theater)
    assert len(server.model.threads) == 1


def test_a_large_log_first_loses_captures_then_stops(make_server):
    server = make_server(max_log_bytes=20_000)
    client = server.client()
    theater = client.do("create", config={"max_model_len": 1024, "num_blocks": 256})["theater"]
    client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 1000})
    client.do("run", theater=theater, speed=0)
    wait_for(lambda: client.statuses[-1]["error"])
    assert "reset" in client.statuses[-1]["error"] and "no longer recorded" in client.statuses[-1]["notice"]
    last = len(requests.get(f"{server.url}/api/theaters").json()["theaters"]) and client.statuses[-1]["num_records"] - 1
    assert requests.get(f"{server.url}/api/theaters/{theater}/records/{last}/capture").status_code == 404
    client.do("reset", theater=theater)
    wait_for(lambda: client.statuses[-1]["notice"] is None and client.statuses[-1]["error"] is None)


def test_failed_steps_report_the_guards_finding(server, client, theater):
    """The page words the rule in its own language; the sentence alone is English."""

    def step(**_: bool) -> None:
        raise MisuseError("block 3 is shared: allocate must copy it before the write", "shared_write", block_id=3)

    client.do("submit", theater=theater, prompts=[{"text": "abc"}])
    engine = server.theaters.get(theater).run.engine
    healthy, engine.step = engine.step, step
    answer = client.ask("step", theater=theater)["error"]
    expected = {"rule": "shared_write", "block_id": 3, "seq_id": None, "said": None, "counted": None}
    text = "block 3 is shared: allocate must copy it before the write"
    assert answer["code"] == "internal" and answer["objection"] == {**expected, "text": text}
    status = client.do("pause", theater=theater)["status"]
    assert status["error"] == f"the step failed: {text}" and status["objection"]["rule"] == "shared_write"
    engine.step = healthy
    client.do("step", theater=theater)
    assert client.do("pause", theater=theater)["status"]["objection"] is None
