"""Latency of a step of a served model with 0.6 B parameters until it is painted in Chromium or received by a socket."""

from __future__ import annotations

import json
import re
import selectors
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from engine.bench.models import QWEN, Models
from tests.gpu.results import Run, Skipped
from tests.load.client import Viewer

STEPS = 12
CREATED, SUBMITTED, STEPPED = 2, 3, 4  # numbers of a client's acknowledgements
NEEDED = ("flask", "flask_socketio", "gevent", "wsproto", "segno", "sqlalchemy", "simpy", "prometheus_client")


def run(run: Run) -> None:
    """Start a server on a free port, run steps, and stop the server."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise Skipped(f"the server needs {', '.join(missing)}: carry wheels (tests.gpu.carry)")
    models = Models()
    source = "bundled" if run.tiny else models.source(QWEN)
    dtype = "float32" if run.device == "cpu" else "bfloat16"
    with tempfile.TemporaryDirectory(prefix="kvtheater-gpu-") as data:
        command = [sys.executable, "-m", "app", "serve", source, "--device", run.device, "--dtype", dtype]
        command += ["--enforce-eager", "--port", "0", "--data-dir", data]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            assert server.stdout is not None
            lines: list[str] = []
            for line in server.stdout:
                lines.append(line)
                if " is ready on " in line:
                    break
            output = "".join(lines)
            address = re.search(r"http://[^/\s]*:(\d+)\S*", output)
            if address is None or server.poll() is not None:
                raise RuntimeError(f"the server did not start: {output[-300:]}")
            with run.trying("step to received"):
                run.add("step to received", "measured", received(int(address[1])))
            with run.trying("memory, clock and power on the page"):
                run.add("memory, clock and power on the page", "measured", device_said(int(address[1])))
            with run.trying("step to painted"):
                run.add("step to painted", "measured", painted(address[0], run.out / "shown.png"))
        finally:
            server.terminate()
            server.wait(20)
            models.close()


class Stepping(Viewer):
    """Client that creates a session and requests each step after it received the previous one."""

    def __init__(self, port: int, selector: selectors.BaseSelector) -> None:
        super().__init__(port, "", selector, self._took)
        self.seconds: list[float] = []  # per step, from the request until the record was received
        self._asked = 0.0

    def came(self) -> None:
        self.ask(CREATED, "create", {"name": "gpu"})

    def answered(self, number: int, ack: dict[str, Any], now: float) -> None:
        if number == CREATED:
            self._theater = ack["theater"]
            self.join()
            return
        super().answered(number, ack, now)
        if number not in (SUBMITTED, STEPPED):
            prompts = [{"text": "Once upon a time, there was"}]
            sampling = {"max_tokens": STEPS + 2, "ignore_eos": True}
            self.ask(SUBMITTED, "submit", {"theater": self._theater, "prompts": prompts, "sampling": sampling})

    def _took(self, index: int, record: bytes, now: float, joined_at: float) -> None:
        if index:
            self.seconds.append(now - self._asked)
        self._asked = time.monotonic()
        self.ask(STEPPED, "step", {"theater": self._theater})


def received(port: int) -> str:
    """Return the median milliseconds from the request of a step until a socket received its record with arrays."""
    with selectors.DefaultSelector() as selector:
        client = Stepping(port, selector)
        client.connect()
        end = time.monotonic() + 60
        while len(client.seconds) < STEPS and time.monotonic() < end and client.socket is not None:
            for key, _ in selector.select(1):
                key.data.read()
        client.drop()
    if len(client.seconds) < STEPS:
        raise RuntimeError(f"only {len(client.seconds)} of {STEPS} steps came")
    return f"{1e3 * statistics.median(client.seconds[2:]):.1f} ms, the median of {STEPS - 2} steps"


def device_said(port: int) -> str:
    """Return the server's description of its device, as shown on the page."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/models") as answer:
        found = json.load(answer)["device"]
    return ", ".join(f"{name} {value}" for name, value in {**found["facts"], **found}.items() if name != "facts")


def painted(url: str, screenshot: Path) -> str:
    """Return the median milliseconds from the request of a step until the page painted it, if Chromium exists."""
    if find_spec("playwright") is None:
        raise Skipped("playwright is not installed")
    from tests.browser.bench_click import clicks
    from tests.browser.conftest import CHROMIUM

    if CHROMIUM is None:
        raise Skipped("there is no Chromium")
    times, _ = clicks(url, STEPS, screenshot)
    return f"{statistics.median(times):.1f} ms, the median of {len(times)} clicks"
