"""Measure the time that `kvtheater proxy` adds to the first and last byte of a response.

Usage: python -m tests.load.proxy [--requests 400] [--follow]
Streamed requests for one token go alternately to a server directly and through the proxy, on a persistent connection
each. With --follow, another server continuously computes the report on the proxy's file, as for /prompts/traffic.
"""

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import requests

from tests.own_server import own_server
from tests.server.apis import Api, served_api

PROMPT = "Once upon a time there was a cache."


def timed(session: requests.Session, url: str) -> tuple[float, float]:
    body = {"model": "bundled", "prompt": PROMPT, "max_tokens": 1, "temperature": 0, "stream": True}
    began = time.perf_counter()
    with session.post(f"{url}/v1/completions", json=body, timeout=60, stream=True) as answer:
        answer.raw.read(1)
        first = time.perf_counter() - began
        answer.raw.read()
        return first, time.perf_counter() - began


def measure(api: Api, through: str, count: int) -> None:
    ways = {"direct": api.url, "proxy": through}
    sessions = {way: requests.Session() for way in ways}
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for number in range(count + 10):
        for way in list(ways)[:: 1 if number % 2 else -1]:
            taken = timed(sessions[way], ways[way])
            if number >= 10:  # the first ten are a warm-up
                found[way].append(taken)
    for place, what in enumerate(("first byte", "last byte")):
        parts = []
        at: dict[str, tuple[float, float]] = {}
        for way, figures in found.items():
            cuts = statistics.quantiles([one[place] * 1000 for one in figures], n=20)
            at[way] = cuts[9], cuts[18]
            parts.append(f"{way} {cuts[9]:.2f} / {cuts[18]:.2f} ms")
        more = [at["proxy"][i] - at["direct"][i] for i in (0, 1)]
        print(f"{what}, p50 / p95: {', '.join(parts)}; added {more[0]:.2f} / {more[1]:.2f} ms")


@contextlib.contextmanager
def followed(file: Path) -> Iterator[list[float]]:
    """Request the report on a file every second, and append the duration of each request to the list."""
    taken, is_over = list[float](), threading.Event()
    with own_server("--traffic", str(file)) as url:

        def ask() -> None:
            while not is_over.wait(1.0):
                began = time.perf_counter()
                with contextlib.suppress(requests.RequestException):
                    requests.get(f"{url}/prompts/traffic/report", timeout=60)
                    taken.append(time.perf_counter() - began)

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            yield taken
        finally:
            is_over.set()
            thread.join()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--follow", action="store_true")
    options = parser.parse_args()
    with served_api() as api, tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "app", "proxy", "--upstream", api.url, "--port", "0"]
        output = str(Path(folder) / "traffic.jsonl")
        with subprocess.Popen([*command, "-o", output], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                url = process.stdout.readline().split()[-1]
                with contextlib.ExitStack() as stack:
                    reports = stack.enter_context(followed(Path(output))) if options.follow else []
                    before = psutil.Process(process.pid).cpu_times()
                    measure(api, url, options.requests)
                    after = psutil.Process(process.pid).cpu_times()
                used = after.user + after.system - before.user - before.system
                print(f"proxy CPU: {1000 * used / (options.requests + 10):.2f} ms a request; {len(reports)} reports")
            finally:
                process.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
