"""Benchmark records over HTTP, and a benchmark that the page starts, follows, watches and stops."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
import torch

from app.bench.runs import BenchRuns
from app.ground.paths import static_dir
from app.ground.settings import ServerSettings
from app.models.model_entry import ModelEntry
from app.models.registry import Models
from app.server.application import create_app
from app.server.listener import Listener, bind
from app.session.closing import Closing
from engine.bench.record import RESULTS
from engine.trace import codec
from engine.trace.records import Header
from tests.preloaded import PreloadedPopen, run_preloaded
from tests.server.conftest import Client, Server, wait_for

SECONDS = 150.0  # a process of the bundled model, on a busy machine


@pytest.fixture(scope="module", autouse=True)
def preloaded() -> Iterator[None]:
    """Fork the benchmark's process from one that has its imports, before any test waits for it."""
    run_preloaded([sys.executable, "-c", ""])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.bench.runs.subprocess", SimpleNamespace(Popen=PreloadedPopen, PIPE=subprocess.PIPE))
        yield


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Return a data folder with a record made here, one of its points with a trace."""
    folder = tmp_path / "bench" / "20260101T000000Z-guard"
    (folder / "traces").mkdir(parents=True)
    record = json.loads((RESULTS / "guard.json").read_text())
    record["points"][0]["trace"] = "guard.none.0.kvtrace"
    record["points"][1]["trace"] = "guard.contiguous.0.kvtrace"  # its file is gone
    record["points"][2]["trace"] = "../../../secret"
    (folder / "guard.json").write_text(json.dumps(record))
    (folder / "traces" / "guard.none.0.kvtrace").write_bytes(codec.MAGIC)
    (tmp_path / "secret").write_text("secret")
    return tmp_path


def test_the_list_has_scenarios_and_sound_records_with_the_traces_that_are_here(make_server, kept):
    broken = kept / "bench" / "20260101T000001Z-broken"
    broken.mkdir()
    (broken / "guard.json").write_text('{"format": "kvtheater-bench", "version": 1}')
    (broken / "other.json").write_text('{"what": "something else"}')
    listed = requests.get(make_server(data_dir=kept).url + "/api/bench").json()
    assert {"guard", "block-size", "against-transformers"} <= {card["id"] for card in listed["scenarios"]}
    guard = next(card for card in listed["scenarios"] if card["id"] == "guard")
    assert (guard["num_points"], guard["num_variants"]) == (2, 3) and set(guard["title"]) == {"en", "zh"}
    refused = {card["id"] for card in listed["scenarios"] if card["refused"] is not None}
    assert refused == (set() if torch.cuda.is_available() else {"gpu-decode"})
    records = {record["id"]: record for record in listed["records"]}
    assert records["shipped-guard"]["origin"] == "shipped"
    for page in ("shipped-click_to_paint", "shipped-real_size", "shipped-class_of_500"):
        assert page not in records  # a measurement of another kind, in the same folder
    own = [record for record in listed["records"] if record["origin"] == "here"]
    assert [record["id"] for record in own] == ["here-20260101T000000Z-guard"]
    assert own[0]["traces"] == ["guard.none.0.kvtrace"]
    assert listed["can_run"] is True and listed["keeps_records"] is True


def test_a_trace_opens_on_the_stage_at_the_step_that_its_point_is_about(make_server, kept):
    """Record 0 is the submission, record 1 step 1 (the prefill), record 2 step 2 (the first decode)."""
    (trace,) = (kept / "bench").glob("*/traces/guard.none.0.kvtrace")
    trace.write_bytes((static_dir() / "recordings" / "moon.kvtrace").read_bytes())
    url = f"{make_server(data_dir=kept).url}/api/bench/records/here-20260101T000000Z-guard/traces/guard.none.0.kvtrace"

    def at(query: str) -> str | None:
        answer = requests.get(f"{url}/stage{query}", allow_redirects=False)
        parameters = parse_qs(urlsplit(answer.headers["Location"]).query)
        assert answer.status_code == 302 and parameters["recording"] == [urlsplit(url).path.lstrip("/")]
        return parameters.get("step", [None])[0]

    assert (at(""), at("?step=1"), at("?step=7"), at("?step=700")) == ("2", "1", "7", None)


def test_records_are_sent_as_the_bytes_of_the_file(make_server, kept):
    url = make_server(data_dir=kept).url
    answer = requests.get(f"{url}/api/bench/records/shipped-guard")
    assert answer.content == (RESULTS / "guard.json").read_bytes()
    assert answer.headers["Content-Type"] == "application/json"
    trace = requests.get(f"{url}/api/bench/records/here-20260101T000000Z-guard/traces/guard.none.0.kvtrace")
    assert trace.content == codec.MAGIC


@pytest.mark.parametrize(
    "path",
    [
        "shipped-nothing",
        "shipped-click_to_paint",
        "..%2f..%2fsecret",
        "here-..",
        "here-%2e%2e%2f%2e%2e",
        "shipped-guard/traces/guard.none.0.kvtrace",
        "here-20260101T000000Z-guard/traces/guard.contiguous.0.kvtrace",
        "here-20260101T000000Z-guard/traces/..%2f..%2f..%2fsecret",
        "here-20260101T000000Z-guard/traces/..",
        "here-20260101T000000Z-guard/traces/..%5cguard.json",
        "x" * 5000,
    ],
)
def test_only_records_and_their_traces_are_sent(make_server, kept, path):
    answer = requests.get(f"{make_server(data_dir=kept).url}/api/bench/records/{path}")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"
    assert "secret" not in answer.json()["error"]["message"] or "secret" in path


def test_the_page_names_its_modules(server):
    page = requests.get(server.url + "/bench")
    assert page.status_code == 200 and "default-src 'self'" in page.headers["Content-Security-Policy"]
    assert "static/js/bench/report.js" in page.text and "<script>" not in page.text


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({}, "bad_request"),
        ({"scenario": "no-such"}, "bad_request"),
        ({"scenario": "../guard"}, "bad_request"),
        ({"scenario": "/tmp/mine.toml"}, "bad_request"),
        ({"scenario": "guard", "rounds": 0}, "bad_request"),
        ({"scenario": "guard", "rounds": 10**9}, "bad_request"),
        ({"scenario": "guard", "folder": "/tmp"}, "bad_request"),
    ],
)
def test_only_shipped_scenarios_are_run(client, message, code):
    assert client.refused("bench_run", message)["code"] == code
    assert client.do("bench_follow")["status"]["state"] == "idle"


def test_benchmarks_need_a_model(tmp_path):
    app = create_app(Models(ModelEntry(None)), ServerSettings(data_dir=tmp_path))
    listener = Listener(app, bind("127.0.0.1", 0))
    client = Client(f"http://127.0.0.1:{listener.port}")
    try:
        assert client.refused("bench_run", scenario="guard")["code"] == "refused"
    finally:
        client.io.disconnect()
        listener.close()


def follow(server: Server) -> tuple[Client, list[dict[str, Any]]]:
    statuses: list[dict[str, Any]] = []
    client = server.client()
    client.io.on("bench_progress", statuses.append)
    client.do("bench_follow")
    return client, statuses


def test_a_run_is_followed_and_watched_and_leaves_a_record(make_server, tmp_path):
    server = make_server(data_dir=tmp_path)
    client, received = follow(server)
    assert client.do("bench_run", scenario="guard", rounds=1, quiet_seconds=0)["status"]["state"] == "running"
    assert client.refused("bench_run", scenario="guard")["code"] == "busy"
    wait_for(lambda: any(status["theater"] for status in received), "something to watch", SECONDS)
    theater = next(status["theater"] for status in received if status["theater"])
    joined = client.do("join", theater=theater)
    assert codec.decode(joined["header"], Header).format and joined["epoch"] >= 0
    assert client.refused("step", theater=theater)["code"] == "refused"
    wait_for(lambda: received[-1]["state"] == "done", "the end", SECONDS)
    assert client.batches and all(batch["theater"] == theater for batch in client.batches)
    wait_for(lambda: client.closed, "word that it is over")
    assert client.refused("join", theater=theater)["code"] == "unknown_theater"
    assert {"warm-up", "round"} <= {status["phase"] for status in received}
    listed = requests.get(server.url + "/api/bench").json()["records"]
    record = next(record for record in listed if record["id"] == received[-1]["run"])
    assert record["complete"] and record["rounds"] == 1 and len(record["traces"]) == 6
    trace = requests.get(f"{server.url}/api/bench/records/{record['id']}/traces/{record['traces'][0]}")
    assert trace.content.startswith(codec.MAGIC)
    theaters = requests.get(f"{trace.url}/stage", allow_redirects=False).headers["Location"]
    assert "step=" in theaters and theaters.startswith("../../../../../../?recording=api%2Fbench%2Frecords%2Fhere-")


def test_runs_of_the_same_second_have_separate_folders(tmp_path, monkeypatch):
    monkeypatch.setattr("app.bench.runs.datetime", Mock(now=Mock(return_value=datetime(2026, 1, 1, tzinfo=UTC))))
    monkeypatch.setattr("sys.executable", shutil.which("true"))
    other = tmp_path / "bench" / "20260101T000000Z-guard"
    other.mkdir(parents=True)
    runs = BenchRuns(tmp_path, lambda *_: None, live=True)
    assert runs.start("guard", rounds=1, quiet_seconds=0).state == "running"
    runs.close(Closing("shutdown"))
    assert runs.status.state == "failed" and list((tmp_path / "bench").iterdir()) == [other]


def test_a_run_stopped_before_its_first_round_leaves_nothing(make_server, tmp_path):
    server = make_server(data_dir=tmp_path)
    client, received = follow(server)
    client.do("bench_run", scenario="guard", quiet_seconds=0)
    wait_for(lambda: any(status["phase"] == "warm-up" for status in received), "the warm-up", SECONDS)
    assert client.do("bench_stop")["status"]["state"] in ("stopping", "failed")
    wait_for(lambda: received[-1]["state"] == "failed", "the end", SECONDS)
    assert "stopped" in received[-1]["error"]
    assert list((tmp_path / "bench").iterdir()) == []
    assert client.do("bench_stop")["status"]["state"] == "failed"  # nothing runs: nothing happens


def test_a_server_that_ends_takes_its_run_with_it(tmp_path):
    server = Server(data_dir=tmp_path)
    client, received = follow(server)
    client.do("bench_run", scenario="guard", quiet_seconds=0)
    process = server.theaters._logs_of("bench-")._process
    assert process is not None and received
    server.close()
    assert process.poll() is not None
    shutil.rmtree(tmp_path)
