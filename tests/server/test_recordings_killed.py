"""Recordings after real signals to real processes."""

import time
from pathlib import Path

import pytest

from engine.trace.check import check
from engine.trace.log import TraceReader
from tests.server.conftest import Client, wait_for
from tests.server.process import Process


@pytest.mark.parametrize("seconds", [0.05, 0.2, 0.5])
def test_a_killed_server_loses_at_most_the_step_in_flight(tmp_path: Path, seconds: float) -> None:
    """Records that a viewer has seen are in the file: they were recorded before they were sent."""
    server = Process(tmp_path)
    viewer = Client(server.url)
    try:
        theater = viewer.do("create")["theater"]
        viewer.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 1000})
        viewer.do("record", theater=theater, name="fast")
        viewer.do("run", theater=theater, speed=0)
        wait_for(lambda: len(viewer.records()) > 3)
        time.sleep(seconds)
    finally:
        server.kill()
    seen = viewer.records()
    viewer.io.disconnect()
    (file,) = (tmp_path / "recordings").glob("rec-*.kvtrace")
    again = Process(tmp_path)
    try:
        listed = again.recordings()
    finally:
        again.kill()
    (entry,) = listed["recordings"]
    assert (
        entry["ended"] == "interrupted" and f"{entry['summary']['num_records']} records kept" in entry["ended_detail"]
    )
    assert [finding["kind"] for finding in listed["findings"]] == ["interrupted"]
    assert list(check(file)) == []
    with TraceReader(file) as reader:
        kept = [reader.record_bytes(i) for i in range(len(reader))]
    assert len(kept) >= len(seen) and kept[: len(seen)] == seen
