"""Clients leave at random, and their counts, the log and /metrics agree.

`python -m tests.load.api --leaves 0.33 --rounds 1` is the same with 64 clients, for longer.
"""

import json
import subprocess
import sys
from pathlib import Path

import requests
from msgspec.structs import replace

from engine.trace.log import TraceReader
from tests.conftest import ROOT
from tests.load.api_server import Server
from tests.load.api_sums import Clients, differences
from tests.server.apis import CONFIG, served_api
from tests.server.conftest import wait_for


def test_a_leaving_client_frees_everything_and_is_counted_once(tmp_path: Path) -> None:
    """The pool has 64 blocks of 4 for 8 places and 16 clients, so requests are preempted and blocks evicted too."""
    with served_api(config=replace(CONFIG, num_blocks=64, max_model_len=128)) as api:
        load = [sys.executable, "-m", "tests.load.api_client", str(api.port), "16", "1.0", "0.4", "7"]
        done = subprocess.run(load, capture_output=True, text=True, timeout=120, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        wait_for(lambda: api.served.engine.num_active == 0 and not api.served.session.has_work, "the last abort")
        file = tmp_path / "api.kvtrace"
        file.write_bytes(requests.get(f"{api.url}/api/theaters/{api.served.session.session_id}/trace").content)
        metrics = requests.get(f"{api.url}/metrics").text
        seen = Clients(requests=report["requests"], left=report["left"], tokens=report["tokens"])
        assert report["errors"] == 0 and seen.left > 0
        assert differences(seen, file, metrics) == []
        for wrong in (replace(seen, requests=seen.requests + 1), replace(seen, tokens=seen.tokens - 1)):
            assert differences(wrong, file, metrics), "and what does not add up is said"
        assert differences(seen, file, metrics.replace("vllm:generation_tokens_total{", "vllm:other_total{"))


def test_an_engine_in_its_own_process_behaves_the_same(tmp_path: Path) -> None:
    """The engine of `kvtheater serve --api --mixed 1` continues while the server reads and writes."""
    server = Server(8, 64, False, str(tmp_path), ["--mixed", "1"])
    try:
        assert server.turn(1.5, 0.4, 7)["errors"] == 0
        (report,) = server.told
        wait_for(server.is_idle, "the last abort")
        file = tmp_path / "api.kvtrace"
        server.save_log(file)
        seen = Clients(requests=report["requests"], left=report["left"], tokens=report["tokens"])
        assert seen.left > 0 and seen.tokens > 0
        assert differences(seen, file, server.metrics()) == []
        with TraceReader(file) as log:
            assert [one.role for one in log.header.instances] == ["mixed"]
    finally:
        server.end()
