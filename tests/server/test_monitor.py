"""A monitored server on stage: joined and read like a session, live, and unchanged by any command."""

from pathlib import Path

import pytest
import requests

from app.cli import main
from engine.trace import codec
from engine.trace.check import check
from engine.trace.records import Header, StepRecord
from tests.monitor_server import NUM_BLOCKS, attached_server
from tests.server.conftest import Client, wait_for
from tests.unit.monitor.publisher import message, stored


def test_a_monitored_server_is_joined_followed_and_recorded(tmp_path: Path) -> None:
    record = tmp_path / "seen.kvtrace"
    with attached_server(tmp_path, record) as (publisher, url):
        facts = requests.get(f"{url}/api/model").json()
        assert (facts["attached"], facts["live"], facts["model"]) == ("attached", False, None)
        client = Client(url)
        try:
            joined = client.do("join", theater="attached")
            header = codec.decode(joined["header"], Header)
            assert header.observed is not None and "ref_counts" in header.observed.unknown
            assert header.engine["num_blocks"] == NUM_BLOCKS
            assert joined["status"]["mode"] == "recording"
            wait_for(lambda: len(client.records()) == 3)  # known since, stored, removed
            publisher.publish(message(stored([b"c" * 8], [1, 2, 3, 4], 4)))
            wait_for(lambda: len(client.records()) == 4)
            last = codec.decode(client.records()[-1], StepRecord)
            assert last.seen is not None and last.seen.sequence == 2 and last.memory.blocks_cached == 2
            whole = requests.get(f"{url}/api/theaters/attached/trace").content
            assert whole == record.read_bytes()
        finally:
            client.io.disconnect()
    assert not list(check(record))


def test_viewers_continue_with_the_next_log_when_one_is_long(tmp_path: Path) -> None:
    record = tmp_path / "seen.kvtrace"
    with attached_server(tmp_path, record, max_bytes=2 << 10) as (publisher, url):
        client = Client(url)
        try:
            epoch = client.do("join", theater="attached")["epoch"]
            for number in range(30):
                publisher.publish(message(stored([b"%08d" % number], [1, 2, 3, number], 4)))
            wait_for(lambda: client.resets and client.resets[-1]["epoch"] > epoch)
            wait_for(lambda: (tmp_path / "seen-2.kvtrace").exists())
            newest = client.resets[-1]["epoch"]
            state = requests.get(f"{url}/api/theaters/attached/trace").content
            assert state.count(b"00000000") == 1  # the first content is known in the last log too
            assert client.do("join", theater="attached")["epoch"] >= newest
        finally:
            client.io.disconnect()
    assert all(not list(check(part)) for part in tmp_path.glob("*.kvtrace"))


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("step", {"count": 1}),
        ("run", {"speed": 4}),
        ("pause", {}),
        ("reset", {}),
        ("abort", {"request_id": "r"}),
        ("record", {"name": "x"}),
    ],
)
def test_commands_to_a_monitored_server_are_refused(event: str, fields: dict[str, object], tmp_path: Path) -> None:
    with attached_server(tmp_path) as (_, url):
        client = Client(url)
        try:
            client.do("join", theater="attached")
            error = client.refused(event, theater="attached", **fields)
            assert error["code"] == "refused" and "it can be viewed, but not changed" in error["message"]
        finally:
            client.io.disconnect()


def test_a_server_without_a_monitored_server_reports_none(make_server) -> None:
    server = make_server()
    assert requests.get(f"{server.url}/api/model").json()["attached"] is None
    assert server.client().refused("join", theater="attached")["code"] == "unknown_theater"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "give --metrics of a server that reports it, or --block-size and --num-blocks"),
        (["--rank", "-1"], "--rank must be at least 0"),
        (["--num-blocks", "0"], "--num-blocks must be at least 1"),
        (["--wait", "nan"], "--wait must be at least 0"),
        (["--metrics", "http://127.0.0.1:1/metrics", "--wait", "0"], "no metrics from http://127.0.0.1:1/metrics"),
        (["--num-blocks", "300000", "--block-size", "16"], "a rank of 300,000 blocks is more than a log can"),
        (
            ["--num-blocks", "190000", "--block-size", "16", *(word for n in range(8) for word in ("--rank", str(n)))],
            "8 ranks of 190,000 blocks are more than a log can hold: watch 4 of them",
        ),
        (["--record", __file__, "--num-blocks", "4", "--block-size", "4"], "exists already"),
    ],
)
def test_the_command_refuses_impossible_input_in_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    common = ["attach", "--events", "tcp://127.0.0.1:1", "--port", "0", "--data-dir", str(tmp_path)]
    assert main([*common, *arguments]) == 2
    output = capsys.readouterr().err
    assert sentence in output and output.count("\n") == 1, output


def test_without_pyzmq_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "zmq", None)
    common = ["attach", "--events", "tcp://127.0.0.1:1", "--port", "0", "--data-dir", str(tmp_path)]
    assert main([*common, "--num-blocks", "4", "--block-size", "4"]) == 2
    assert "pip install 'kvtheater[attach]'" in capsys.readouterr().err
