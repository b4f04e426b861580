"""The server gives the page's charts the measured roofs and the charting library."""

import gzip

import pytest
import requests

from tests.server.conftest import wait_for
from tests.server.fake import FakeEngine


def test_the_roofs_are_measured_on_request(server):
    assert requests.get(f"{server.url}/api/model").json()["machine"]["roofs"] is None
    roofs = requests.get(f"{server.url}/api/machine").json()["roofs"]
    assert roofs["flops_per_second"] == 2e9 and roofs["bytes_per_second"] == 1e9 and roofs["copy_runs"] == 5
    assert requests.get(f"{server.url}/api/model").json()["machine"]["roofs"] == roofs


def test_nothing_is_measured_while_a_theater_runs(server, client, theater):
    """The measurement and the run would slow each other; roofs that are known are returned at any time."""
    server.model.step_seconds = 0.01
    client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 500})
    client.do("run", theater=theater, speed=0)
    refused = requests.get(f"{server.url}/api/machine")
    assert refused.status_code == 409 and refused.json()["error"]["code"] == "busy"
    client.do("pause", theater=theater)
    assert requests.get(f"{server.url}/api/machine").status_code == 200
    client.do("run", theater=theater, speed=0)
    assert requests.get(f"{server.url}/api/machine").status_code == 200


def test_an_idle_run_does_not_block_a_measurement(server, client, theater):
    client.do("run", theater=theater, speed=0)
    wait_for(lambda: any(s["mode"] == "running" for s in client.statuses), "running")
    assert requests.get(f"{server.url}/api/machine").status_code == 200


LESSON = """+++
id = "roofs"
number = 1
minutes = 1
model = "fake"
title = { en = "Roofs" }
prompts = { en = ["abc"] }
+++

## first

::: en
A text.
:::

do: prefill
ask: ridge
do: step 1
"""


@pytest.fixture
def with_lesson(make_server, tmp_path):
    (tmp_path / "roofs.md").write_text(LESSON)
    return make_server(lessons=tmp_path)


def test_a_lesson_has_the_machine_measured_between_two_steps_of_others(with_lesson):
    with_lesson.model.step_seconds = 0.3
    client = with_lesson.client()
    theater = str(client.do("create", name="another")["theater"])
    client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 500})
    client.do("run", theater=theater, speed=0)
    wait_for(lambda: with_lesson.model.is_stepping, "a step")
    client.do("lesson_open", lesson="roofs", language="en")
    assert with_lesson.model.machine.roofs and not with_lesson.model.measured_beside_a_step


def test_a_lesson_as_a_file_has_the_machine_measured_when_nothing_runs(with_lesson):
    with_lesson.model.step_seconds = 0.3
    client = with_lesson.client()
    theater = str(client.do("create", name="another")["theater"])
    client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 500})
    client.do("run", theater=theater, speed=0)
    exported = requests.get(f"{with_lesson.url}/api/lessons/roofs/export.html")
    assert exported.status_code == 409 and with_lesson.model.machine.roofs is None


def test_a_step_that_does_not_end_is_not_measured_beside(server, client, theater):
    server.model.step_seconds = 3
    client.do("submit", theater=theater, prompts=[{"text": "abc"}])
    client.io.emit("step", {"theater": theater})
    wait_for(lambda: server.model.is_stepping, "a step")
    assert requests.get(f"{server.url}/api/machine").json()["error"]["code"] == "busy"
    wait_for(lambda: not server.model.is_stepping, "its end")
    assert requests.get(f"{server.url}/api/machine").status_code == 200
    assert not server.model.measured_beside_a_step


def test_the_charting_library_comes_from_this_server(server):
    address = f"{server.url}/vendor/plotly.min.js"
    plain = requests.get(address, headers={"Accept-Encoding": "identity"})
    assert plain.headers["Content-Type"].startswith("text/javascript") and "Content-Encoding" not in plain.headers
    assert b"plotly.js v" in plain.content[:100]
    packed = requests.get(address, headers={"Accept-Encoding": "gzip"}, stream=True).raw.read()
    assert len(packed) < len(plain.content) / 2 and gzip.decompress(packed) == plain.content
    again = requests.get(address, headers={"If-None-Match": plain.headers["ETag"]})
    assert again.status_code == 304 and not again.content


def test_device_memory_is_reported_beside_the_models(server, client):
    before = requests.get(f"{server.url}/api/models").json()["device"]
    assert before["weights_bytes"] == server.model.num_bytes and before["pools_bytes"] == before["logs_bytes"] == 0
    assert before["facts"]["clock_mhz"] is None, "nobody invents what a driver does not tell"
    for blocks in (8, 4):
        client.do("create", config={"num_blocks": blocks, "block_size": 4})
    after = requests.get(f"{server.url}/api/models").json()["device"]
    assert after["pools_bytes"] == (8 + 4) * 4 * server.model.kv_bytes_per_token and after["logs_bytes"] > 0
    assert after["facts"] == before["facts"]


def test_the_old_pool_is_freed_if_both_do_not_fit(server, client, theater, monkeypatch):
    """The old run's blocks are freed first; if the new run cannot begin then, the old one reports why it ended."""
    gone: list[FakeEngine] = []
    monkeypatch.setattr(FakeEngine, "release", lambda self: gone.append(self))
    client.do("reset", theater=theater)
    assert len(gone) == 1, "the old run ends as always"
    server.model.free_bytes = 0
    built = server.model.build

    def build(*given):
        assert len(gone) == 2, "before the new one is built"
        raise ValueError("no memory")

    server.model.build = build
    assert "no memory" in client.refused("reset", theater=theater)["message"]
    refused = client.refused("submit", theater=theater, prompts=[{"text": "abc"}])
    assert "released its memory" in refused["message"]
    server.model.build, server.model.free_bytes = built, 1 << 34
    client.do("reset", theater=theater)
    client.do("submit", theater=theater, prompts=[{"text": "abc"}])
