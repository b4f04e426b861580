"""Replay of a Mooncake trace by NVIDIA's aiperf; its times to the first token are compared with our log's.

Usage: python -m tests.load.aiperf [--environment FOLDER] [--compiled] [--requests N] [--keep FOLDER] [-- OPTION ...]
On the standard output one line of JSON; exit status 1 where a request failed, or where the mean time to the first token
differs by more than 5 %. aiperf comes into an environment of its own, which is kept in FOLDER; on a quiet machine, the
replay takes 84 s. What follows `--` is for the server.

The trace (FAST '25, the first 84 s of its conversations) is of a model of 128,000 tokens; everything is a sixteenth of
it here, blocks of 512 tokens are of 32, and what is longer than our model's 1,024 is left out.

aiperf's clock runs from when it begins to send until it has read the first piece of text, the log's from when the
server has all of the request to the end of the step that chose the first token. Each request is looked up by its id in
both, and the difference is told by where it comes from:

    connecting, sending     in aiperf, as it says itself: its event loop, a connection if there is none to use
    reading                 from then until the server has the body: accept, head, body, a worker for what is asked
    telling                 from the end of the step to aiperf's reading: the record written, the hub, the socket
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from engine.model.shipped import SHIPPED
from tests.load.api_log import logged_requests
from tests.load.api_server import Server
from tests.load.environments import programs

TRACE = Path(__file__).parents[2] / "engine/bench/traces/mooncake-conversation.jsonl"
SCALE = 16
BLOCK = 512 // SCALE  # tokens that a hash of the trace stands for
LONGEST = 900  # tokens, prompt and output: the text that aiperf makes of tokens may be some more tokens again
PLACES = 64  # sequences at once
BAR = 0.05
TOKENIZER = "kvtheater/bundled"


def scaled(most: int | None) -> Iterator[dict[str, Any]]:
    """Yield at most `most` rows of the trace that fit our model."""
    with TRACE.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    for row in rows:
        prompt, output = -(-row["input_length"] // SCALE), max(2, row["output_length"] // SCALE)
        if prompt + output <= LONGEST and (most is None or most > 0):
            most = None if most is None else most - 1
            yield row | {"input_length": prompt, "output_length": output}


def tokenizer_cache(folder: Path) -> dict[str, str]:
    """Return an environment in which the hub's name TOKENIZER is our tokenizer, and the network is not used.

    aiperf has its processes load a tokenizer offline, by a name that must be one of the hub's cache: a folder's path
    fails there as soon as there are ten prompts.
    """
    place = folder / "hub" / f"models--{TOKENIZER.replace('/', '--')}"
    commit = "0" * 40
    snapshot = place / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(commit)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(SHIPPED["bundled"].tokenizer_folder / name, snapshot)
    return os.environ | {"HF_HOME": str(folder), "HF_HUB_OFFLINE": "1"}


def replay(bin: Path, port: int, folder: Path, most: int | None) -> None:
    """Run aiperf; its results are in `folder` afterwards."""
    trace = folder / "trace.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in scaled(most)))
    command = [str(bin / "aiperf"), "profile", "--model", "bundled", "--endpoint-type", "chat", "--streaming"]
    command += ["--url", f"http://127.0.0.1:{port}", "--tokenizer", TOKENIZER, "--input-file", str(trace)]
    command += ["--custom-dataset-type", "mooncake_trace", "--fixed-schedule", "--fixed-schedule-auto-offset"]
    command += ["--isl-block-size", str(BLOCK), "--extra-inputs", "ignore_eos:true", "temperature:0"]
    command += ["--random-seed", "1", "--artifact-dir", str(folder), "--export-level", "raw", "--ui", "none"]
    command += ["--no-gpu-telemetry", "--no-server-metrics"]
    environment = tokenizer_cache(folder / "huggingface")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    (folder / "aiperf.txt").write_text(done.stdout + done.stderr)
    if done.returncode:
        raise SystemExit(f"aiperf has failed:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")


def compared(folder: Path) -> dict[str, Any]:
    """Return aiperf's records beside the log's, in milliseconds."""
    log = logged_requests(folder / "api.kvtrace")
    heads = _heads(folder / "access.jsonl")
    metrics = {one["metadata"]["x_request_id"]: one["metrics"] for one in _lines(folder / "profile_export.jsonl")}
    failed = 0
    rows: list[dict[str, float]] = []
    for raw in _lines(folder / "profile_export_raw.jsonl"):
        values = metrics.get(raw["metadata"]["x_request_id"], {})
        if raw.get("error") or raw.get("status") != 200 or "time_to_first_token" not in values:
            failed += 1
            continue
        request_id = json.loads(raw["responses"][0]["packets"][0]["value"])["id"]
        logged = log[request_id]
        assert logged.ttft is not None
        theirs, ours = values["time_to_first_token"]["value"], logged.ttft * 1e3
        sending = values["http_req_connecting"]["value"] + values["http_req_sending"]["value"]
        reached = heads[request_id] * 1e3 - raw["metadata"]["request_start_ns"] / 1e6  # its head, by the server's clock
        rows.append({
            "theirs": theirs, "ours": ours, "gap": theirs - ours, "sending": sending,
            "reading": max(0.0, reached - sending), "telling": theirs - ours - max(reached, sending),
            "tokens": float(values["usage_completion_tokens"]["value"] != logged.output_tokens),
        })  # fmt: skip
    ratio = _mean(rows, "theirs") / _mean(rows, "ours")
    return {
        "requests": len(rows) + failed,
        "failed": failed,
        "other_number_of_tokens": round(sum(row["tokens"] for row in rows)),
        "ttft_ms_mean": {"aiperf": _mean(rows, "theirs"), "log": _mean(rows, "ours"), "ratio": round(ratio, 4)},
        "ttft_ms_p50": {side: round(statistics.median(r[side] for r in rows), 2) for side in ("theirs", "ours")},
        "gap_ms": {
            "mean": _mean(rows, "gap"),
            "p50": round(statistics.median(row["gap"] for row in rows), 2),
            "most": round(max(row["gap"] for row in rows), 2),
            "of_it": {part: _mean(rows, part) for part in ("sending", "reading", "telling")},
        },
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", type=Path, default=Path(tempfile.gettempdir()) / "kvtheater-aiperf")
    parser.add_argument("--requests", type=int, help="the first so many (default: all that fit the model)")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--keep", type=Path, help="a folder for the log, aiperf's records and the access log")
    parser.add_argument("option", nargs="*", help="of the server")
    arguments = parser.parse_args()
    bin = programs(arguments.environment, "aiperf==0.13.0")
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.keep or Path(temporary) / "aiperf").absolute()
        folder.mkdir(parents=True)
        options = ["--access-log", str(folder / "access.jsonl"), *arguments.option]
        server = Server(PLACES, PLACES * 1024 // 16, arguments.compiled, temporary, options)
        try:
            _warm(server.port)
            replay(bin, server.port, folder, arguments.requests)
            server.save_log(folder / "api.kvtrace")
        finally:
            server.end()
        found = compared(folder)
    print(json.dumps({**found, "compiled": arguments.compiled, "cores": os.cpu_count(), "load": os.getloadavg()[0]}))
    return 1 if found["failed"] or abs(found["ttft_ms_mean"]["ratio"] - 1) > BAR else 0


def _warm(port: int) -> None:
    """Run the work that only a first request needs."""
    for length in (1, 300, 600):
        body = json.dumps({"model": "bundled", "prompt": [5] * length, "max_tokens": 4}).encode()
        address = f"http://127.0.0.1:{port}/v1/completions"
        urllib.request.urlopen(urllib.request.Request(address, body, {"Content-Type": "application/json"})).read()


def _heads(path: Path) -> dict[str, float]:
    """Return the time at which the server had each request's head, by request id: seconds since 1970, to the
    millisecond.
    """
    return {
        line["request_id"]: datetime.fromisoformat(line["time"]).timestamp()
        for line in _lines(path)
        if "request_id" in line
    }


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _mean(rows: list[dict[str, float]], field: str) -> float:
    return round(statistics.mean(row[field] for row in rows), 2)


if __name__ == "__main__":
    sys.exit(main())
