"""A long log is sent to the page piece by piece."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import requests

import app.session.run
from app.ground.paths import static_dir
from app.ground.settings import ServerSettings
from app.models.model_entry import ModelEntry
from app.models.registry import Models
from app.server.application import create_app
from engine.trace.log import TraceReader
from engine.trace.log_index.block_rows import BLOCK
from engine.trace.operations import Submit
from tests.server.conftest import Client, Server, wait_for

RECORDING, FILE = "rec-moon", static_dir() / "recordings" / "moon.kvtrace"


def ask(server: Any, what: str = "", **query: Any) -> requests.Response:
    return requests.get(f"{server.url}/api/theaters/{RECORDING}/survey{what}", params=query, timeout=60)


@pytest.fixture
def indexed(make_server: Callable[..., Server], tmp_path: Path) -> Server:
    """Start a server, and wait until it has indexed the recording."""
    server = make_server(data_dir=tmp_path)
    first = ask(server)
    assert first.status_code in (200, 503)
    wait_for(lambda: ask(server).status_code == 200 and ask(server).json()["is_done"], "the survey", 60)
    return server


def test_every_piece_is_what_the_log_says(indexed):
    with TraceReader(FILE) as log:
        answer = ask(indexed).json()
        assert answer["num_surveyed"] == answer["num_records"] == len(log) and answer["problem"] == ""
        for record in (-1, len(log) // 2, len(log) - 1):
            found = msgspec.msgpack.decode(ask(indexed, "/blocks", record=record).content)
            blocks = log.state_at(record).blocks
            counts = np.frombuffer(found["ref_count"], BLOCK["ref_count"])
            assert found["record"] == record and counts.tolist() == [block.ref_count for block in blocks]
        found = msgspec.msgpack.decode(ask(indexed, "/changes", first=3, end=7).content)
        assert found["records"] == [log.record_bytes(i) for i in range(3, 7)] and found["end"] == 7
        assert set(np.frombuffer(found["record"], "<i4").tolist()) <= {3, 4, 5, 6}
        found = msgspec.msgpack.decode(ask(indexed, "/sequences").content)
        assert found["seq_id"] == sorted(log.state_at(len(log) - 1).sequences)
        found = msgspec.msgpack.decode(ask(indexed, "/series", bins=4).content)
        assert np.frombuffer(found["edges"]).tolist()[::4] == [0, len(log)]
        assert len(np.frombuffer(found["running_max"])) == 4


def test_missing_records_are_refused(indexed):
    assert ask(indexed, "/blocks", record=10_000).status_code == 404
    assert ask(indexed, "/changes", first=-1).status_code == 404
    assert ask(indexed, "/series", first=5, end=5).status_code == 404
    assert ask(indexed, "/blocks", record="last").json()["error"]["code"] == "bad_request"
    refused = ask(indexed, "/heard", record=1)
    assert refused.status_code == 404 and "not the log of a monitored server" in refused.json()["error"]["message"]


def test_a_damaged_index_file_is_rebuilt(indexed, tmp_path):
    (rows,) = tmp_path.glob("surveys/*.rows")
    rows.write_bytes(b"\0" * rows.stat().st_size)
    refused = ask(indexed, "/blocks", record=5)
    assert refused.status_code == 503 and "damaged" in refused.json()["error"]["message"]
    wait_for(lambda: ask(indexed, "/blocks", record=5).status_code == 200, "a new one", 60)


def test_a_large_recording_is_not_sent(server, monkeypatch):
    monkeypatch.setattr(app.session.run, "MAX_RECORDS", 3)
    client = Client(server.url)
    joined = client.ask("join", theater=RECORDING)
    assert joined["large"] and joined["from"] == joined["num_records"] > 3
    monkeypatch.setattr(app.session.run, "MAX_RECORDS", 20_000)
    whole = client.ask("join", theater=RECORDING)
    assert not whole["large"] and whole["from"] == 0
    wait_for(lambda: sum(len(batch["records"]) for batch in client.batches) == whole["num_records"])
    client.io.disconnect()


def test_arrays_do_not_count_as_record_bytes(monkeypatch):
    """Arrays are sent only when they are shown."""
    with TraceReader(FILE) as log:
        assert log.num_captures and log.all_record_bytes < log.num_bytes
        monkeypatch.setattr(app.session.run, "MAX_BYTES", log.all_record_bytes)
        assert not app.session.run.is_large(log)
        monkeypatch.setattr(app.session.run, "MAX_BYTES", log.all_record_bytes - 1)
        assert app.session.run.is_large(log)


def test_requests_by_class_beside_another_run(indexed):
    listed = requests.get(f"{indexed.url}/api/recordings", timeout=20).json()["recordings"]
    [other, *_] = [one["id"] for one in listed if one["id"] != RECORDING and not one["summary"].get("observed")]

    def found(**query: str) -> dict[str, Any]:
        wait_for(lambda: ask(indexed, "/classes", **query).status_code == 200, "both surveys", 60)
        wait_for(lambda: all(run["num_surveyed"] for run in ask(indexed, "/classes", **query).json()["runs"]))
        answer: dict[str, Any] = ask(indexed, "/classes", **query).json()
        return answer

    with TraceReader(FILE) as log:
        prompts = [op for i in range(len(log)) for op in log.record(i).ops if isinstance(op, Submit)]
    alone = found(by="prompt")
    assert sum(one["a"]["requests"] for one in alone["classes"]) == len(prompts)
    assert all(one["b"] is None for one in alone["classes"]) and len(alone["runs"]) == 1
    [both] = found(by="all", beside=other)["classes"]
    assert both["a"]["requests"] == len(prompts) and both["b"]["requests"] > 0
    assert ask(indexed, "/classes", by="colour").json()["error"]["code"] == "bad_request"
    assert ask(indexed, "/classes", beside="nobody").status_code == 404


def test_requests_of_a_monitored_server_are_unknown(tmp_path):
    observed = Path(__file__).parents[1] / "golden" / "observed.kvtrace"
    made = create_app(Models(ModelEntry(None)), ServerSettings(data_dir=tmp_path), [observed])
    try:
        client = made.test_client()
        address = f"/api/theaters/{RECORDING}/survey/classes?beside=rec-observed"
        wait_for(lambda: client.get(address).status_code == 200, "the survey", 60)
        answer = client.get(address).get_json()
        assert [bool(run["unsaid"]) for run in answer["runs"]] == [False, True]
        assert all(one["b"] is None for one in answer["classes"])
    finally:
        made.extensions["kvtheater"].close()


def test_a_late_client_of_a_long_live_run_gets_windows(server, client, theater, monkeypatch):
    """The run continues, and the index grows with it. A client that requests records gets records."""
    monkeypatch.setattr(app.session.run, "MAX_RECORDS", 5)
    client.do("submit", theater=theater, prompts=[{"text": "one two three"}], sampling={"max_tokens": 40})
    client.do("step", theater=theater, count=10)
    late = server.client()
    joined = late.ask("join", theater=theater, windows=True)
    assert joined["large"] and joined["from"] == joined["num_records"] == 11
    plain, back = server.client(), server.client()
    assert not plain.ask("join", theater=theater)["large"]
    assert back.ask("join", theater=theater, windows=True, epoch=joined["epoch"], **{"from": 11})["large"]
    wait_for(lambda: sum(len(batch["records"]) for batch in plain.batches) == 11)
    address = f"{server.url}/api/theaters/{theater}/survey"

    def known() -> int:
        answer = requests.get(address, timeout=20)
        return int(answer.json()["num_surveyed"]) if answer.ok else 0

    wait_for(lambda: known() == 11, "the survey", 60)
    assert not requests.get(address, timeout=20).json()["is_done"]
    client.do("step", theater=theater, count=5)
    wait_for(lambda: known() == 16, "what came since", 60)
    wait_for(lambda: any(status["num_records"] == 16 for status in late.statuses), "the status")
    found = msgspec.msgpack.decode(requests.get(f"{address}/changes?first=12&end=16", timeout=20).content)
    assert len(found["records"]) == 4 and not late.batches
    client.do("reset", theater=theater)
    client.do("submit", theater=theater, prompts=[{"text": "four"}], sampling={"max_tokens": 2})
    wait_for(lambda: late.resets and sum(len(batch["records"]) for batch in late.batches) == 1, "the next run")


def test_a_viewer_is_notified_once_of_a_long_run_and_may_decline_its_records(server, client, theater, monkeypatch):
    """Records are sent until the client joins again for windows; the next run is sent whole again."""
    monkeypatch.setattr(app.session.run, "MAX_RECORDS", 5)
    plain = server.client()
    plain.do("join", theater=theater)
    for epoch in (0, 1):
        client.do("submit", theater=theater, prompts=[{"text": "one two three"}], sampling={"max_tokens": 40})
        client.do("step", theater=theater, count=4)
        wait_for(partial(_has, client, epoch, 5), "what a page keeps")
        assert len(client.large) == epoch
        client.do("step", theater=theater)
        wait_for(partial(_is_told, client, epoch + 1), "that it is long")
        assert client.large[-1] == {"theater": theater, "epoch": epoch, "num_records": 6}
        wait_for(partial(_has, client, epoch, 6), "what comes until it asks for windows")
        again = client.ask("join", theater=theater, windows=True, epoch=epoch, **{"from": 6})
        assert again["large"]
        client.do("step", theater=theater, count=6)
        wait_for(partial(_has, plain, epoch, 12), "who does not ask")
        wait_for(lambda: client.statuses[-1]["num_records"] == 12, "the status")
        assert _has(client, epoch, 6) and len(client.large) == epoch + 1
        client.do("reset", theater=theater)
    assert len(plain.large) == 2


def _has(client: Client, epoch: int, count: int) -> bool:
    """Whether the client has received this number of records of that run."""
    return sum(len(batch["records"]) for batch in client.batches if batch["epoch"] == epoch) == count


def _is_told(client: Client, times: int) -> bool:
    return len(client.large) == times
