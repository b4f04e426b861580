"""The API under many streaming clients, beside the bare engine at the same batch: both in turns, in one run.

Usage: python -m tests.load.api [--clients 64] [--seconds 20] [--rounds 3] [--compiled] [--leaves 0] [-- OPTION ...]
On the standard output one line of JSON a turn, then one of everything. What follows `--` is for the server.

A turn of the server computes on the same cores as its clients, and on those of whatever else the machine does. So
besides tokens a second there is the processor time of a token, for server, clients and bare engine apart, and of each
turn how many cores were at work (`cores`) and how many of them for none of these (`others`).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from tests.load.api_prompts import MAX_TOKENS

TICK = os.sysconf("SC_CLK_TCK")
WARM_SECONDS = 5.0
BLOCKS_EACH = 8  # of 16 tokens: a prompt of the load and its answer


def busy_seconds() -> float:
    """Processor seconds of the whole machine so far that were not idle."""
    ticks = list(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]))
    return (sum(ticks[:3]) + sum(ticks[5:8])) / TICK  # all but idle, waiting for a disk, and guests, who count as users


class Turn:
    """What the machine does while something is measured."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._began, self._busy, self._cpu = time.monotonic(), busy_seconds(), running.cpu_seconds

    def over(self, tokens: int, others_cpu: float = 0.0) -> dict[str, float]:
        """`others_cpu`: processor seconds of what belongs to the measurement as well."""
        seconds, cpu = time.monotonic() - self._began, self._running.cpu_seconds - self._cpu
        return {
            "cpu_ms_per_token": cpu / tokens * 1e3,
            "cores": cpu / seconds,
            "others": (busy_seconds() - self._busy - cpu - others_cpu) / seconds,
        }


class Running:
    """A process under measurement."""

    def __init__(self, module: list[str], **options: Any) -> None:
        command = [sys.executable, "-m", *module]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
        assert self.process.stdout is not None
        self.out = self.process.stdout

    @property
    def cpu_seconds(self) -> float:
        """Processor seconds so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    @property
    def resident_mib(self) -> float:
        """Memory that it has now."""
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text())
        assert found is not None
        return int(found[1]) / 1024

    def end(self) -> None:
        """Ask it to end, and wait."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


class Bare(Running):
    """The engine alone."""

    def __init__(self, clients: int, num_blocks: int, compiled: bool) -> None:
        what = ["tests.load.api_bare", str(clients), str(num_blocks), *(["compiled"] if compiled else [])]
        super().__init__(what, stdin=subprocess.PIPE)

    def turn(self, seconds: float) -> dict[str, Any]:
        """Tokens a second, and milliseconds of the processor a token."""
        assert self.process.stdin is not None
        turn = Turn(self)
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        told = json.loads(self.out.readline())
        return {"tokens_per_s": told["tokens"] / told["seconds"], **turn.over(told["tokens"])}


class Server(Running):
    """`kvtheater serve --api`, of the bundled model."""

    def __init__(self, clients: int, num_blocks: int, compiled: bool, data: str, options: list[str]) -> None:
        self._clients = clients
        what = ["app", "serve", "--api", "--port", "0", "--data-dir", data, "--num-logprobs", "0"]
        what += ["--max-num-seqs", str(clients), "--num-blocks", str(num_blocks)]
        super().__init__([*what, "--no-enforce-eager" if compiled else "--enforce-eager", *options])
        for line in self.out:
            if found := re.search(r"http://[^/\s]*:(\d+)", line):
                self.port = int(found[1])
                break
        else:
            raise SystemExit("the server has ended")
        while compiled and (state := self._model()["compiled"]) != "done":
            if state == "failed":
                raise SystemExit("the model was not compiled")
            time.sleep(0.5)

    def turn(self, seconds: float, leaves: float, seed: int) -> dict[str, Any]:
        """As the bare engine's, and what the clients say."""
        turn, before = Turn(self), self._ttft()
        asked = [str(each) for each in (self.port, self._clients, seconds, leaves, seed)]
        client = [sys.executable, "-m", "tests.load.api_client", *asked]
        told = json.loads(subprocess.run(client, check=True, stdout=subprocess.PIPE, text=True).stdout)
        tokens, after = told["tokens"], self._ttft()
        return {
            "tokens_per_s": tokens / told["seconds"],
            **turn.over(tokens, told["cpu_seconds"]),
            "client_cpu_ms_per_token": told["cpu_seconds"] / tokens * 1e3,
            "events_per_token": told["events"] / tokens,
            "errors": told["errors"],
            "first_errors": told["first_errors"],
            "ttft_p50": told["ttft_p50"],
            "ttft_mean": told["ttft_mean"],
            "ttft_mean_by_log": (after[0] - before[0]) / (after[1] - before[1]),
            "resident_mib": self.resident_mib,
        }

    def _model(self) -> dict[str, Any]:
        """The status of the model."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/models") as answer:
            found: dict[str, Any] = json.load(answer)["models"][0]["status"]
        return found

    def _ttft(self) -> list[float]:
        """Seconds and requests so far, as the server's metrics have them."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
            text = answer.read().decode()
        name = "vllm:time_to_first_token_seconds"
        found = [re.search(rf"^{name}_{end}{{.*}} (\S+)$", text, re.MULTILINE) for end in ("sum", "count")]
        return [float(line[1]) if line else 0.0 for line in found]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--leaves", type=float, default=0.0, help="share of clients that leave early")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("option", nargs="*", help="of the server")
    asked = parser.parse_args()
    num_blocks = asked.clients * BLOCKS_EACH
    turns: list[tuple[dict[str, Any], dict[str, Any]]] = []
    with tempfile.TemporaryDirectory() as data:
        server = Server(asked.clients, num_blocks, asked.compiled, data, asked.option)
        bare = Bare(asked.clients, num_blocks, asked.compiled)
        try:
            bare.turn(WARM_SECONDS)
            server.turn(WARM_SECONDS, 0.0, 0)
            for seed in range(1, asked.rounds + 1):
                pair = bare.turn(asked.seconds), server.turn(asked.seconds, asked.leaves, seed)
                turns.append(pair)
                load = os.getloadavg()[0]
                print(json.dumps({"bare": pair[0], "server": pair[1], "load": load}, default=str), flush=True)
        finally:
            server.end()
            bare.end()

    def median(side: int, field: str) -> float:
        return float(statistics.median(pair[side][field] for pair in turns))

    print(
        json.dumps(
            {
                "clients": asked.clients,
                "compiled": asked.compiled,
                "max_tokens": MAX_TOKENS,
                "cores": os.cpu_count(),
                "others": [round(max(turn["others"] for turn in pair), 2) for pair in turns],
                "throughput_ratio": statistics.median(s["tokens_per_s"] / b["tokens_per_s"] for b, s in turns),
                "bare_tokens_per_s": median(0, "tokens_per_s"),
                "server_tokens_per_s": median(1, "tokens_per_s"),
                "bare_cpu_ms_per_token": median(0, "cpu_ms_per_token"),
                "server_cpu_ms_per_token": median(1, "cpu_ms_per_token"),
                "client_cpu_ms_per_token": median(1, "client_cpu_ms_per_token"),
                "errors": sum(pair[1]["errors"] for pair in turns),
                "resident_mib": [round(pair[1]["resident_mib"]) for pair in turns],
            }
        )
    )


if __name__ == "__main__":
    main()
