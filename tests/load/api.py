"""Load test of the API with many streaming clients, alternating with the bare engine at the same batch size.

Usage: python -m tests.load.api [--clients 64] [--seconds 20] [--rounds 3] [--compiled] [--leaves 0] [-- OPTION ...]
       ... [--bare-seconds 60]: duration of the bare engine's turns
It prints a line of JSON per turn, and a last line for all turns. Options after `--` are passed to the server.

Server, clients and other programs share the cores. So the results include, besides tokens per second, the processor
time per token of server, clients and bare engine, and for each turn the number of busy cores (`cores`) and how many of
them other programs used (`others`).

At the end the counts of the clients, the log and /metrics are compared (`api_sums.py`): `python -m tests.load.api
--leaves 0.33 --rounds 1` checks that disconnecting clients lose nothing. The exit status is 1 if the counts differ or a
client met an error.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.load.api_client import MAX_TOKENS
from tests.load.api_server import Running, Server, Turn
from tests.load.api_sums import Clients, differences

WARM_SECONDS = 5.0
IDLE_SECONDS = 30.0
BLOCKS_EACH = 8  # blocks of 16 tokens per request, prompt and output


class Bare(Running):
    """Bare engine in a separate process."""

    def __init__(self, clients: int, num_blocks: int, compiled: bool) -> None:
        what = ["tests.load.api_bare", str(clients), str(num_blocks), *(["compiled"] if compiled else [])]
        super().__init__(what, stdin=subprocess.PIPE)

    def turn(self, seconds: float) -> dict[str, Any]:
        """Return tokens per second, and CPU milliseconds per token."""
        assert self.process.stdin is not None
        turn = Turn(self)
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        report = json.loads(self.out.readline())
        return {"tokens_per_s": report["tokens"] / report["seconds"], **turn.over(report["tokens"])}


def _sums(server: Server, folder: Path) -> list[str]:
    """Wait until no request is in flight; return the differences between clients, log and metrics."""
    end = time.monotonic() + IDLE_SECONDS
    while not server.is_idle():
        if time.monotonic() > end:
            return [f"requests were still in flight {IDLE_SECONDS:g} seconds after the last client ended"]
        time.sleep(0.1)
    server.save_log(folder / "api.kvtrace")
    seen = Clients(
        requests=sum(report["requests"] for report in server.told),
        left=sum(report["left"] for report in server.told),
        tokens=sum(report["tokens"] for report in server.told),
    )
    return differences(seen, folder / "api.kvtrace", server.metrics())


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--bare-seconds", type=float, help="of a turn of the engine alone (default: as the server's)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--leaves", type=float, default=0.0, help="share of clients that leave early")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("option", nargs="*", help="of the server")
    args = parser.parse_args()
    num_blocks = args.clients * BLOCKS_EACH
    turns: list[tuple[dict[str, Any], dict[str, Any]]] = []
    with tempfile.TemporaryDirectory() as data:
        server = Server(args.clients, num_blocks, args.compiled, data, args.option)
        bare = Bare(args.clients, num_blocks, args.compiled)
        try:
            bare.turn(WARM_SECONDS)
            server.turn(WARM_SECONDS, 0.0, 0)
            for seed in range(1, args.rounds + 1):
                pair = bare.turn(args.bare_seconds or args.seconds), server.turn(args.seconds, args.leaves, seed)
                turns.append(pair)
                load = os.getloadavg()[0]
                print(json.dumps({"bare": pair[0], "server": pair[1], "load": load}, default=str), flush=True)
            sums = _sums(server, Path(data))
        finally:
            server.end()
            bare.end()

    def median(side: int, field: str) -> float:
        return float(statistics.median(pair[side][field] for pair in turns))

    print(
        json.dumps(
            {
                "clients": args.clients,
                "compiled": args.compiled,
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
                "differences": sums,
            }
        )
    )
    return 1 if sums or any(report["errors"] for report in server.told) else 0


if __name__ == "__main__":
    sys.exit(main())
