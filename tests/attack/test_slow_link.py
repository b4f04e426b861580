"""A run on a nearly stalled link continues without the missing transfers, and its end waits for none."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.connector.link import MAX_READ_SECONDS, LocalLink, ThrottledLink, TransferError
from tests.conftest import ROOT
from tests.server.conftest import Client
from tests.server.waiting import wait_for


class Sends:
    """Sender of a megabyte."""

    def read(self, transfer: str, wanted: object) -> list[bytes]:
        return [bytes(1_000_000)]

    def renew(self, transfer: str) -> None: ...

    def received(self, transfer: str, wanted: object, num_bytes: int) -> None: ...


def test_reads_over_a_slow_link_time_out() -> None:
    waits: list[float] = []
    link = ThrottledLink(LocalLink({"a": Sends()}), 1e-3, waits.append, lambda: 0.0)
    with pytest.raises(TransferError, match=r"1000000 bytes need 1e\+09 s on this link") as late:
        link.to("a").read("t", [])
    assert late.value.reason == "late" and waits == [MAX_READ_SECONDS]


def serve(folder: Path) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "app", "serve", "--port", "0", "--data-dir", str(folder), "--enforce-eager"]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"http://\S+:\d+", line):
            return process, found.group()
    raise AssertionError("the server did not start")


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1e-9, 1e-4])
def test_a_server_ends_while_a_transfer_waits_for_its_link(tmp_path: Path, rate: float) -> None:
    process, url = serve(tmp_path)
    try:
        client = Client(url)
        config = {"prefill": 1, "decode": 1, "link_mb_per_second": rate}
        wait_for(lambda: client.ask("tokenize", text="a")["ok"], "the model", 60)
        theater = client.do("create", config=config)["theater"]
        client.do("submit", theater=theater, prompts=[{"text": "Once upon a time"}], sampling={"max_tokens": 8})
        client.do("run", theater=theater, speed=0)
        time.sleep(2)  # the prompt is computed by now, and its blocks are on their way
        client.io.disconnect()
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=10)
    finally:
        process.kill()
        process.wait()
