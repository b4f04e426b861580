"""Time until the page of `kvtheater serve` responds, its model is loaded, and the compiled forward pass is in use.

    python -m tests.load.starts                     three first starts with further ones each; use a quiet machine
    python -m tests.load.starts --keep              also write the record beside this file
    python -m tests.load.starts --rounds 1 FOLDER   another model

A first start has an empty compile cache. Further starts use its content.
"""

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
from typing import NamedTuple

from tests.load.record import Measuring

ROOT = Path(__file__).resolve().parents[2]
RECORD = Path(__file__).with_suffix(".json")
FURTHER = 3  # starts after a first one
BARS = {"first": 15.0, "further": 3.0}  # maximum seconds until the compiled pass is in use, for the bundled model
EVERY, LONGEST = 0.02, 600.0  # seconds


class Start(NamedTuple):
    """Seconds since the start of the command."""

    answers: float
    ready: float
    compiled: float


def start(model: str, cache: Path) -> Start:
    """Measure the start of a server, and stop it."""
    with tempfile.TemporaryDirectory() as data:
        began = time.perf_counter()
        server = subprocess.Popen(
            [sys.executable, "-m", "app", "serve", model, "--port", "0", "--data-dir", data],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        )  # fmt: skip
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            found = re.search(r"http://\S+", line)
            assert found, line
            return _followed(found[0], began)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()


def _followed(address: str, began: float) -> Start:
    answers = ready = 0.0
    while time.perf_counter() - began < LONGEST:
        with urllib.request.urlopen(f"{address}api/models", timeout=60) as answer:
            model = json.load(answer)["models"][0]["status"]
        now = time.perf_counter() - began
        answers = answers or now
        ready = ready or (now if model["state"] == "ready" else 0.0)
        if model["compiled"] == "done":
            return Start(answers, ready, now)
        assert model["state"] != "failed" and model["compiled"] != "failed", model
        time.sleep(EVERY)
    raise TimeoutError(f"the compiled pass does not serve after {LONGEST:g} s")


def main() -> int:
    """Measure; return exit status 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="bundled")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help=f"write {RECORD.name} beside this file")
    given = parser.parse_args()
    measuring, starts = Measuring(), dict[str, list[Start]](first=[], further=[])
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory() as cache:
            for kind in ["first", *["further"] * FURTHER]:
                starts[kind].append(start(given.model, Path(cache)))
                print(kind, " ".join(f"{k} {v:.2f}" for k, v in starts[kind][-1]._asdict().items()), flush=True)
    medians = {kind: statistics.median(one.compiled for one in found) for kind, found in starts.items()}
    found = {
        "model": given.model,
        "bars": BARS,
        "median": medians,
        "starts": {kind: [one._asdict() for one in each] for kind, each in starts.items()},
    }
    measuring.record(found, RECORD if given.keep else None)
    missed = given.model == "bundled" and any(medians[kind] > bar for kind, bar in BARS.items())
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
