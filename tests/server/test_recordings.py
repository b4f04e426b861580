"""Recordings over the wire: recording a session, replaying without a model, and the library over HTTP."""

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from msgspec.structs import replace

from app.ground.settings import ServerSettings
from app.models.model_entry import ModelEntry
from app.models.registry import Models
from app.server.application import create_app
from app.server.listener import Listener, bind
from app.session.closing import Closing
from engine.trace import codec
from engine.trace.log import TraceReader
from engine.trace.records import Header, LayerCapture, StepRecord
from tests.server.conftest import Client, Server, wait_for


@pytest.fixture
def server(make_server: Callable[..., Server], tmp_path: Path) -> Server:
    return make_server(data_dir=tmp_path / "data")


def own(server: Server) -> list[dict[str, Any]]:
    listed = requests.get(f"{server.url}/api/recordings").json()["recordings"]
    return [r for r in listed if r["source"] == "library"]


def grow(client: Client, theater: str, tokens: int) -> int:
    client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": tokens})
    return int(client.do("step", theater=theater, count=tokens)["num_records"])


@pytest.fixture
def recorded(server: Server, client: Client, theater: str) -> dict[str, Any]:
    """Return a finished recording of 11 records."""
    client.do("record", theater=theater, name="ten steps", tags=["x"])
    assert grow(client, theater, 10) == 11
    client.do("record_stop", theater=theater)
    (entry,) = own(server)
    return entry


def test_status_says_that_a_theater_is_recorded(server, client, theater):
    assert client.do("create")["status"]["recording"] is None
    status = client.do("record", theater=theater, name="one")["status"]["recording"]
    assert status["name"] == "one" and status["ended"] is None
    assert client.refused("record", theater=theater)["code"] == "refused"
    wait_for(lambda: any(s["recording"] for s in client.statuses))
    stopped = client.do("record_stop", theater=theater)["status"]["recording"]
    assert stopped["id"] == status["id"] and stopped["ended"] == "stopped"
    assert client.do("record", theater=theater)["status"]["recording"]["id"] != status["id"]


def test_the_file_is_the_theaters_log(server, client, theater, tmp_path):
    grow(client, theater, 5)
    recording_id = client.do("record", theater=theater)["status"]["recording"]["id"]
    grow(client, theater, 5)
    log = requests.get(f"{server.url}/api/theaters/{theater}/trace").content
    assert requests.get(f"{server.url}/api/recordings/{recording_id}/trace").content == log


@pytest.mark.parametrize("ended", ["reset", "closed"])
def test_a_recording_ends_with_its_run(server, client, theater, ended):
    client.do("record", theater=theater)
    count = grow(client, theater, 3)
    if ended == "reset":
        client.do("reset", theater=theater)
        assert grow(client, theater, 2) == 3
    else:
        server.theaters.remove(server.theaters.get(theater), Closing("unused"))
    (entry,) = own(server)
    assert entry["ended"] == ended and entry["summary"]["num_records"] == count


def test_a_recording_is_joined_like_a_theater(server, recorded):
    viewer = server.client()
    joined = viewer.do("join", theater=recorded["id"])
    assert joined["num_records"] == 11 and joined["recording"]["name"] == "ten steps"
    assert joined["status"]["mode"] == "recording"
    wait_for(lambda: len(viewer.records()) == 11)
    assert all(c is None for b in viewer.batches for c in b["captures"])
    answer = requests.get(f"{server.url}/api/theaters/{recorded['id']}/records/3/layers/1?epoch=0")
    assert (codec.decode(answer.content, LayerCapture).k == 3).all()
    batch = viewer.do("read", theater=recorded["id"], **{"from": 2, "to": 4}, captures=True)
    assert batch["records"] == viewer.records()[2:4] and all(batch["captures"])
    again = server.client()
    again.do("join", theater=recorded["id"], **{"from": 7}, epoch=0)
    wait_for(lambda: again.batches)
    assert again.batches[0]["first"] == 7
    viewer.do("leave", theater=recorded["id"])


@pytest.mark.parametrize("how", ["written over", "replaced"])
def test_another_log_in_the_file_is_shown_from_its_beginning(server, recorded, tmp_path, how):
    """A run that is recorded to the same file again, while a page shows the file."""
    viewer = server.client()
    viewer.do("join", theater=recorded["id"])
    wait_for(lambda: len(viewer.records()) == 11)
    (file,) = tmp_path.rglob(f"{recorded['id']}.kvtrace")
    log = Path("tests/golden/prefix-0.1.0.kvtrace").read_bytes()
    if how == "replaced":
        file.rename(file.with_suffix(".before"))
    file.write_bytes(log)
    with TraceReader(file) as reader:
        records = [reader.record_bytes(index) for index in range(len(reader))]
    assert requests.get(f"{server.url}/api/theaters/{recorded['id']}/records/3?epoch=0").status_code == 404
    wait_for(lambda: len(viewer.records(1)) == len(records))
    assert viewer.records(1) == records and [reset["epoch"] for reset in viewer.resets] == [1]
    assert requests.get(f"{server.url}/api/theaters/{recorded['id']}/trace").content == log
    file.write_bytes(log[:-100])
    assert "the file ends inside" in server.client().do("join", theater=recorded["id"])["status"]["error"]


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("step", {}),
        ("prefill", {}),
        ("run", {"speed": 1}),
        ("pause", {}),
        ("reset", {}),
        ("record", {}),
        ("record_stop", {}),
        ("submit", {"prompts": [{"text": "x"}]}),
        ("configure", {"config": {}}),
        ("recompute", {"seq_id": 0, "layer": 0}),
    ],
)
def test_nothing_can_be_asked_of_a_recording(server, client, recorded, event, fields):
    error = client.refused(event, theater=recorded["id"], **fields)
    assert (error["code"], error["message"]) == ("refused", "this is a recording: it can be viewed, but not changed")
    assert error["said"] == {"zh": "这是一份录制：只能查看，不能改变"}


def test_a_growing_recording_can_be_read(server, client, theater):
    recording_id = client.do("record", theater=theater)["status"]["recording"]["id"]
    grow(client, theater, 3)
    viewer = server.client()
    assert viewer.do("join", theater=recording_id)["num_records"] == 4
    viewer.do("leave", theater=recording_id)
    grow(client, theater, 3)
    assert viewer.do("join", theater=recording_id)["num_records"] == 8


def test_unknown_recordings(server, client):
    assert client.refused("join", theater="rec-none")["code"] == "not_found"
    for path in ("/api/recordings/rec-none", "/api/recordings/rec-none/trace", "/api/theaters/rec-none/header"):
        answer = requests.get(server.url + path)
        assert answer.status_code == 404 and answer.json()["error"]["code"] == "not_found"


def test_change_and_delete(server, client, recorded):
    url = f"{server.url}/api/recordings/{recorded['id']}"
    changed = requests.patch(url, json={"name": "十步", "tags": ["a", "b"], "notes": "n"}).json()
    assert (changed["name"], changed["tags"], changed["notes"]) == ("十步", ["a", "b"], "n")
    assert requests.patch(url, json={"tags": []}).json()["name"] == "十步"
    mistakes: list[Any] = [{"name": ""}, {"name": 3}, {"tags": ["x" * 65]}, {"colour": "red"}, [], "no"]
    for bad in mistakes:
        answer = requests.patch(url, json=bad)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_request")
    for body in (b"{", b"", b"\xff\xfe", b'{"tags":' + b"[" * 5000 + b"]" * 5000 + b"}"):
        answer = requests.patch(url, data=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_request")
    viewer = server.client()
    viewer.do("join", theater=recorded["id"])
    assert requests.delete(url).json() == {"deleted": recorded["id"]}
    wait_for(lambda: viewer.closed)
    assert own(server) == [] and requests.get(url).status_code == 404
    assert requests.delete(url).status_code == 404


def test_download_by_ranges(server, recorded):
    url = f"{server.url}/api/recordings/{recorded['id']}/trace"
    whole = requests.get(url)
    assert whole.content.startswith(codec.MAGIC) and whole.headers["Accept-Ranges"] == "bytes"
    assert whole.headers["Content-Disposition"].startswith('attachment; filename="ten-steps.kvtrace"')
    part = requests.get(url, headers={"Range": "bytes=8-107"})
    assert part.status_code == 206 and part.content == whole.content[8:108]
    assert part.headers["Content-Range"] == f"bytes 8-107/{len(whole.content)}"
    assert requests.get(url, headers={"Range": "bytes=-10"}).content == whole.content[-10:]
    assert requests.get(url, headers={"Range": f"bytes={len(whole.content)}-"}).status_code == 416


def test_exports_for_other_programs(server, recorded, monkeypatch):
    url = f"{server.url}/api/recordings/{recorded['id']}/export"
    listed = requests.get(f"{server.url}/api/recordings").json()["exports"]
    assert list(listed) == ["perfetto", "csv", "parquet"] and listed["csv"] is None
    perfetto = requests.get(f"{url}/perfetto")
    assert perfetto.headers["Content-Disposition"].startswith('attachment; filename="ten-steps.perfetto.json"')
    names = {e["args"]["name"] for e in perfetto.json()["traceEvents"] if e["name"] == "process_name"}
    assert {"sequences", "block pool"} < names
    for to in ("csv", *(["parquet"] if listed["parquet"] is None else [])):
        answer = requests.get(f"{url}/{to}")
        with zipfile.ZipFile(io.BytesIO(answer.content)) as both:
            assert both.namelist() == [f"events.{to}", f"steps.{to}"]
            if to == "csv":
                assert len(both.read("steps.csv").decode().splitlines()) == 1 + 11  # names, then a row for each record
    assert requests.get(f"{url}/xlsx").status_code == 404
    monkeypatch.setattr("app.recordings.exports.find_spec", lambda name: None)
    assert requests.get(f"{server.url}/api/recordings").json()["exports"]["parquet"] == "pyarrow"
    refused = requests.get(f"{url}/parquet")
    assert refused.status_code == 422 and "pyarrow" in refused.json()["error"]["message"]


def test_upload_what_was_downloaded(server, client, recorded):
    content = requests.get(f"{server.url}/api/recordings/{recorded['id']}/trace").content
    answer = requests.post(f"{server.url}/api/recordings?name=C:/x/旅行.kvtrace&tag=a&tag=b", data=content)
    entry = answer.json()
    assert answer.status_code == 201 and answer.headers["Location"] == f"recordings/{entry['id']}"
    assert (entry["name"], entry["tags"], entry["ended"]) == ("旅行", ["a", "b"], "imported")
    assert entry["summary"] == recorded["summary"]
    assert client.do("join", theater=entry["id"])["num_records"] == 11
    assert len(own(server)) == 2


def test_a_truncated_upload_keeps_its_valid_part(server, recorded):
    """The records before the damage are worth storing, and the entry says what is wrong."""
    content = requests.get(f"{server.url}/api/recordings/{recorded['id']}/trace").content
    entry = requests.post(f"{server.url}/api/recordings", data=content[:-30]).json()
    assert "the file ends inside" in entry["summary"]["damage"] and entry["summary"]["num_records"] >= 10


def test_opening_a_recording_with_an_impossible_header_is_refused(server, client, recorded):
    payload = requests.get(f"{server.url}/api/theaters/{recorded['id']}/header").content
    header = codec.decode(payload, Header)
    header.engine["num_blocks"] = 1 << 40
    content = codec.MAGIC + codec.frame("header", codec.encode(header))
    entry = requests.post(f"{server.url}/api/recordings", data=content).json()
    error = client.refused("join", theater=entry["id"])
    assert error["code"] == "refused" and "the header's engine.num_blocks must be" in error["message"]


def test_a_log_that_contradicts_itself_is_not_compared(server, recorded):
    """The log lacks its first record, the submission, so the next one is about an unknown sequence."""
    base = f"{server.url}/api/theaters/{recorded['id']}"
    frames = [codec.frame("header", requests.get(f"{base}/header").content)]
    for i in range(1, 4):
        record = codec.decode(requests.get(f"{base}/records/{i}").content, StepRecord)
        frames.append(codec.frame("record", codec.encode(replace(record, index=i - 1, has_capture=False))))
    content = codec.MAGIC + b"".join(frames)
    entry = requests.post(f"{server.url}/api/recordings", data=content).json()
    answer = requests.get(f"{server.url}/api/compare?a={recorded['id']}&b={entry['id']}")
    assert answer.status_code == 422 and "a log contradicts itself: record 0" in answer.json()["error"]["message"]


def test_uploads_that_are_refused(make_server, tmp_path):
    server = make_server(data_dir=tmp_path / "data", max_recording_bytes=3 << 20)
    url = f"{server.url}/api/recordings"
    for content in (b"", b"PK\x03\x04" + b"0" * (2 << 20), codec.MAGIC, codec.MAGIC + b"\xff" * 100):
        answer = requests.post(url, data=content)
        assert answer.status_code == 400 and answer.json()["error"]["message"].startswith("this is not a recording: ")
    large = requests.post(url, data=b"0" * (4 << 20))
    assert large.status_code == 422 and "3 MiB" in large.json()["error"]["message"]
    chunked = requests.post(url, data=iter([b"abc"]))
    assert chunked.status_code == 400
    assert list((tmp_path / "data" / "recordings").glob("*.part")) == []
    assert own(server) == []


def test_a_server_without_a_folder_stores_nothing(make_server):
    server = make_server()
    listed = requests.get(f"{server.url}/api/recordings").json()
    assert listed["can_keep"] is False and all(r["source"] == "shipped" for r in listed["recordings"])
    client = server.client()
    theater = client.do("create")["theater"]
    assert "stores no recordings" in client.refused("record", theater=theater)["message"]
    assert requests.post(f"{server.url}/api/recordings", data=b"x").status_code == 422


@pytest.fixture
def replay(recorded, tmp_path) -> Iterator[str]:
    """Yield the address of a server without a model that shows the recorded file."""
    (file,) = (tmp_path / "data" / "recordings").glob("rec-*.kvtrace")
    app = create_app(Models(ModelEntry(None)), ServerSettings(), [file])
    listener = Listener(app, bind("127.0.0.1", 0))
    yield f"http://127.0.0.1:{listener.port}"
    listener.close()


def test_replay_needs_no_model(replay, recorded):
    facts = requests.get(f"{replay}/api/model").json()
    assert facts["live"] is False and facts["model"] is None and facts["machine"] is None
    assert requests.get(f"{replay}/").status_code == 200
    assert requests.get(f"{replay}/api/machine").status_code == 404
    viewer = Client(replay)
    try:
        assert viewer.do("join", theater=recorded["id"])["num_records"] == 11
        wait_for(lambda: len(viewer.records()) == 11)
        for event, fields in (("create", {}), ("tokenize", {"text": "x"})):
            error = viewer.refused(event, **fields)
            assert error["code"] == "refused" and "no live model" in error["message"]
    finally:
        viewer.io.disconnect()


def test_many_recordings_can_be_opened_one_after_another(server, client, recorded):
    content = requests.get(f"{server.url}/api/recordings/{recorded['id']}/trace").content
    ids = [requests.post(f"{server.url}/api/recordings", data=content).json()["id"] for _ in range(20)]
    for recording_id in ids:
        assert requests.get(f"{server.url}/api/theaters/{recording_id}/records/10").status_code == 200
    assert len(server.theaters._logs_of("rec-")._open) <= 16


def test_the_recording_of_a_fast_run_delays_nothing(server, client, theater, tmp_path):
    """The run has no speed limit and a viewer, and the file has every record of the log."""
    recording_id = client.do("record", theater=theater)["status"]["recording"]["id"]
    client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 300})
    client.do("run", theater=theater, speed=0)
    wait_for(lambda: len(client.records()) == 301, seconds=30)
    client.do("record_stop", theater=theater)
    (tmp_path / "t").write_bytes(requests.get(f"{server.url}/api/recordings/{recording_id}/trace").content)
    with TraceReader(tmp_path / "t") as reader:
        assert reader.damage is None
        assert [reader.record_bytes(i) for i in range(len(reader))] == client.records()


def test_findings_are_reported(make_server, tmp_path):
    folder = tmp_path / "data" / "recordings"
    folder.mkdir(parents=True)
    (folder / "x.kvtrace").write_text("no trace")
    server = make_server(data_dir=tmp_path / "data")
    (finding,) = requests.get(f"{server.url}/api/recordings").json()["findings"]
    assert finding["kind"] == "not_a_trace" and "x.kvtrace was ignored" in finding["message"]
    assert json.dumps(finding)
