"""Real processes, real signals, a real disk that is full: what a recording keeps."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import requests

from engine.trace.check import check
from engine.trace.log import TraceReader
from tests.conftest import ROOT
from tests.server.conftest import Client, wait_for

SERVE = """
import sys, threading
from pathlib import Path
from typing import Any
from app.server import create_app
from app.serving import Listener, bind
from app.settings import ServerSettings
from engine.config import EngineConfig
from tests.server.fake import FakeModel

settings = ServerSettings(data_dir=Path(sys.argv[1]), config=EngineConfig(block_size=4, num_blocks=512))
app, _ = create_app(FakeModel(), settings)
listener = Listener(app, bind("127.0.0.1", 0))
print(f"http://127.0.0.1:{listener.port}", flush=True)
threading.Event().wait()
"""


class Process:
    """A server over the fake model in a process of its own."""

    def __init__(self, data: Path, within: Sequence[str] = ()) -> None:
        """`within`: a command that runs it."""
        self.process = subprocess.Popen(
            [*within, sys.executable, "-c", SERVE, str(data)], cwd=ROOT, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        found = re.search(r"http://\S+", self.process.stdout.readline())
        assert found
        self.url = found.group()

    def recordings(self) -> dict[str, Any]:
        answer: dict[str, Any] = requests.get(f"{self.url}/api/recordings").json()
        answer["recordings"] = [r for r in answer["recordings"] if r["source"] == "library"]
        return answer

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


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
    """The data folder is a file system of 256 KiB; the run's own log lies elsewhere."""
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
