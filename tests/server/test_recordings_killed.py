"""Recordings after real signals to real processes, and on a disk that is full."""

import subprocess
import time
from pathlib import Path

import pytest
import requests

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


def test_when_the_disk_is_full_the_run_goes_on(tmp_path: Path) -> None:
    """The data folder is a file system of 256 KiB; the run's own log is elsewhere."""
    data = tmp_path / "data"
    data.mkdir()
    mount = f"mount -t tmpfs -o size=256k none '{data}'"
    if subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount a file system")
    server = Process(data, ["unshare", "-rm", "sh", "-c", f'{mount} && exec "$@"', "sh"])
    viewer = Client(server.url)
    try:
        theater = viewer.do("create")["theater"]
        viewer.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 800})
        recording = viewer.do("record", theater=theater, name="full")["status"]["recording"]["id"]
        assert viewer.do("step", theater=theater, count=800) == {"ok": True, "num_records": 801, "performed": 800}
        wait_for(lambda: viewer.statuses[-1]["recording"]["ended"] == "write_failed")
        assert viewer.statuses[-1]["error"] is None
        (entry,) = server.recordings()["recordings"]
        count = entry["summary"]["num_records"]
        assert entry["ended"] == "write_failed" and 10 < count < 800
        assert entry["ended_detail"] == f"it ends after {count} records: No space left on device"
        file = tmp_path / "kept.kvtrace"
        file.write_bytes(requests.get(f"{server.url}/api/recordings/{recording}/trace").content)
        assert list(check(file)) == []
        error = viewer.refused("record", theater=theater)
        assert error["code"] == "refused" and "full" in error["message"]
        assert requests.delete(f"{server.url}/api/recordings/{recording}").status_code == 200
        assert server.recordings()["recordings"] == []
    finally:
        viewer.io.disconnect()
        server.kill()
