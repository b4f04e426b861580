"""HTTP endpoints of sessions."""

import msgspec
import pytest
import requests

from engine.trace import codec
from engine.trace.records import Capture, Header, LayerCapture, StepRecord


@pytest.fixture
def base(server, client, theater) -> str:
    client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 4})
    client.do("step", theater=theater, count=2)
    return f"{server.url}/api/theaters/{theater}"


def test_health_and_model(server):
    assert requests.get(f"{server.url}/api/health").json()["ok"] is True
    facts = requests.get(f"{server.url}/api/model").json()
    assert facts["model"]["num_layers"] == 2 and facts["config"]["block_size"] == 4
    assert facts["presets"][0]["prompts"] == {
        "en": ["Who has seen the wind?"],
        "zh": ["春江潮水连海平，海上明月共潮生。"],
    }
    rows = {row["name"]: row for row in facts["options"]["tables"]["engine"]}
    assert rows["strategy"]["control"]["offered"] == ["paged", "first_fit", "contiguous", "none"]
    assert rows["strategy"]["choices"] == [*rows["strategy"]["control"]["offered"], "concat", "dynamic", "static"]
    assert list(rows) == list(facts["config"])
    assert [row["name"] for row in facts["options"]["tables"]["sampling"]] == list(facts["sampling"])
    assert facts["options"]["words"]["zh"]["block_size"]["label"] == "块大小"
    assert facts["sampling"]["temperature"] == 0 and facts["kv_bytes_per_token"] == 64
    assert facts["limits"]["max_prompts"] == 64


def test_theaters(server, client, theater):
    (only,) = requests.get(f"{server.url}/api/theaters").json()["theaters"]
    assert only["theater"] == theater and only["name"] == "a test" and only["status"]["mode"] == "paused"
    assert only["summary"]["preview"] == "" and only["summary"]["num_requests"] == 0
    client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 4})
    (only,) = requests.get(f"{server.url}/api/theaters").json()["theaters"]
    assert only["summary"]["preview"] == "abc" and only["summary"]["num_requests"] == 1


def test_records_captures_and_layers(base):
    record = requests.get(f"{base}/records/1")
    assert record.headers["X-Epoch"] == "0" and record.headers["Content-Type"] == "application/msgpack"
    assert codec.decode(record.content, StepRecord).has_capture
    assert len(codec.decode(requests.get(f"{base}/records/1/capture").content, Capture).layers) == 2
    layer = codec.decode(requests.get(f"{base}/records/1/layers/1").content, LayerCapture)
    assert layer.layer == 1 and layer.k.shape == (3, 1, 4) and (layer.k == 1).all()
    assert codec.decode(requests.get(f"{base}/header").content, Header).model.name == "fake"


def test_json_forms(base):
    record = requests.get(f"{base}/records/0?format=json").json()
    assert record["ops"][0]["type"] == "submit" and record["ops"][0]["prompt_token_bytes"] == ["61", "62", "63"]
    layer = requests.get(f"{base}/records/2/layers/0?format=json").json()
    assert layer["v"] == [[[2.0, 2.0, 2.0, 2.0]]]
    assert requests.get(f"{base}/header?format=json").json()["engine"]["block_size"] == 4


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/records/9", 404, "not_found"),
        ("/records/-1", 404, "not_found"),
        ("/records/x", 404, "not_found"),
        ("/records/99999999999999999999999", 404, "not_found"),
        ("/records/0/capture", 404, "not_found"),  # the record of a submission has no arrays
        ("/records/1/layers/2", 404, "not_found"),
        ("/records/0?format=xml", 400, "bad_request"),
        ("/records/0?epoch=1", 404, "stale_epoch"),
        ("/nothing", 404, "not_found"),
    ],
)
def test_missing_addresses_are_answered_in_json(base, path, status, code):
    answer = requests.get(base + path)
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == code and answer.json()["error"]["message"]


def test_other_addresses_and_methods(server):
    assert requests.get(f"{server.url}/api/theaters/none/trace").json()["error"]["code"] == "unknown_theater"
    assert requests.get(f"{server.url}/nothing").status_code == 404
    wrong = requests.post(f"{server.url}/api/health")
    assert wrong.status_code == 405 and "GET" in wrong.headers["Allow"].split(", ")
    assert wrong.json()["error"]["message"] == "POST /api/health is not allowed; use GET"
    assert requests.get(f"{server.url}/static/../pyproject.toml").status_code == 404
    assert requests.get(f"{server.url}/static/%2e%2e/pyproject.toml").status_code == 404


def test_one_layer_of_many_records(base):
    answer = requests.get(f"{base}/layers/1?records=2,0,1")
    found = msgspec.msgpack.decode(answer.content)
    assert found["records"] == [2, 0, 1] and found["arrays"][1] is None  # the record of a submission has no arrays
    for index, payload in ((2, found["arrays"][0]), (1, found["arrays"][2])):
        assert payload == requests.get(f"{base}/records/{index}/layers/1").content
    assert msgspec.msgpack.decode(requests.get(f"{base}/layers/9?records=1").content)["arrays"] == [None]
    for bad, status in (("", 400), ("x", 400), ("1,,2", 400), ("-1", 400), (",".join("1" * 257), 400), ("9", 404)):
        assert requests.get(f"{base}/layers/1?records={bad}").status_code == status, bad


def test_an_answer_takes_no_more_records_once_it_is_large(base, monkeypatch):
    monkeypatch.setattr("app.server.api.MAX_ARRAYS", 1)
    found = msgspec.msgpack.decode(requests.get(f"{base}/layers/1?records=1,2").content)
    assert found["records"] == [1] and len(found["arrays"]) == 1
