"""Processes under load, among them the API server, and their resource use."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import psutil


def busy_seconds() -> float:
    """Return the non-idle CPU seconds of the machine so far."""
    times = psutil.cpu_times()  # `user` includes guests
    return sum(times[:3]) + sum(times[5:8])


class Turn:
    """CPU use of the machine during a measurement."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._began, self._busy, self._cpu = time.monotonic(), busy_seconds(), running.cpu_seconds

    def over(self, tokens: int, others_cpu: float = 0.0) -> dict[str, float]:
        """Return the CPU use so far. `others_cpu`: CPU seconds of the measurement's other processes."""
        seconds, cpu = time.monotonic() - self._began, self._running.cpu_seconds - self._cpu
        return {
            "cpu_ms_per_token": cpu / tokens * 1e3,
            "cores": cpu / seconds,
            "others": (busy_seconds() - self._busy - cpu - others_cpu) / seconds,
        }


class Running:
    """Process whose resource use is measured."""

    def __init__(self, module: list[str], **options: Any) -> None:
        command = [sys.executable, "-m", *module]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
        assert self.process.stdout is not None
        self.out = self.process.stdout
        self._system = psutil.Process(self.process.pid)

    @property
    def cpu_seconds(self) -> float:
        """Return the CPU seconds so far."""
        return sum(self._system.cpu_times()[:2])

    @property
    def resident_mib(self) -> float:
        """Return the current resident memory."""
        return self._system.memory_info().rss / 2**20

    def end(self) -> None:
        """Terminate the process, and wait."""
        self.process.terminate()
        self.process.wait(30)


class Server(Running):
    """`kvtheater serve --api` with the bundled model."""

    def __init__(self, clients: int, num_blocks: int, compiled: bool, data: str, options: list[str]) -> None:
        self._clients = clients
        self.told: list[dict[str, Any]] = []  # the clients' report of each turn
        what = ["app", "serve", "--api", "--port", "0", "--data-dir", data, "--num-logprobs", "0"]
        what += ["--max-num-seqs", str(clients), "--num-blocks", str(num_blocks)]
        super().__init__([*what, "--no-enforce-eager" if compiled else "--enforce-eager", *options])
        for line in self.out:
            if found := re.search(r"http://[^/\s]*:(\d+)", line):
                self.port = int(found[1])
                break
        else:
            raise SystemExit("the server has ended")
        while self._model()["state"] == "loading":
            time.sleep(0.2)
        while compiled and (state := self._model()["compiled"]) != "done":
            if state == "failed":
                raise SystemExit("the model was not compiled")
            time.sleep(0.5)

    def turn(self, seconds: float, leaves: float, seed: int) -> dict[str, Any]:
        """Run the clients against the API; return their results and the server's costs."""
        turn, before = Turn(self), self._ttft()
        words = [str(each) for each in (self.port, self._clients, seconds, leaves, seed)]
        client = [sys.executable, "-m", "tests.load.api_client", *words]
        report = json.loads(subprocess.run(client, check=True, stdout=subprocess.PIPE, text=True).stdout)
        self.told.append(report)
        tokens, after = report["tokens"], self._ttft()
        return {
            "tokens_per_s": tokens / report["seconds"],
            **turn.over(tokens, report["cpu_seconds"]),
            "client_cpu_ms_per_token": report["cpu_seconds"] / tokens * 1e3,
            "events_per_token": report["events"] / tokens,
            "errors": report["errors"],
            "first_errors": report["first_errors"],
            "ttft_p50": report["ttft_p50"],
            "ttft_mean": report["ttft_mean"],
            "ttft_mean_by_log": (after[0] - before[0]) / (after[1] - before[1]),
            "resident_mib": self.resident_mib,
        }

    def metrics(self) -> str:
        """Return the metrics in Prometheus' text format."""
        return self._get("/metrics").decode()

    def is_idle(self) -> bool:
        """Whether the API has no request in flight."""
        status = self._api()["status"]
        return not status["unfinished"] and not status["api"]["active"]

    def save_log(self, path: Path) -> None:
        """Save the log of the API's session, which must be complete.

        Raises:
            SystemExit: the session has begun another run, because the log had become long.
        """
        found = self._api()
        if found["status"]["epoch"] != 0:
            raise SystemExit("the log had become long and began anew, so it lacks requests: take fewer --seconds")
        path.write_bytes(self._get(f"/api/theaters/{found['theater']}/trace"))

    def _api(self) -> dict[str, Any]:
        """Return the API's session."""
        listed = json.loads(self._get("/api/theaters"))["theaters"]
        found: dict[str, Any] = next(one for one in listed if one["name"] == "API")
        return found

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}") as answer:
            body: bytes = answer.read()
        return body

    def _model(self) -> dict[str, Any]:
        """Return the status of the model."""
        found: dict[str, Any] = json.loads(self._get("/api/models"))["models"][0]["status"]
        return found

    def _ttft(self) -> list[float]:
        """Return seconds and requests so far, from the server's metrics."""
        text = self.metrics()
        name = "vllm:time_to_first_token_seconds"
        found = [re.search(rf"^{name}_{end}{{.*}} (\S+)$", text, re.MULTILINE) for end in ("sum", "count")]
        return [float(line[1]) if line else 0.0 for line in found]
