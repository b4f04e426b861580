"""Benchmark worker, a process of the server: `python -m app.bench.worker ORDER`.

In one process, the server's threads would share an interpreter with the timed code, and their CPU time could not be
separated from the benchmark's. In another process they count as other programs: the record says how busy they were.

ORDER is JSON, an `Order`. Standard output has a line of JSON for each `Progress`, and at the end `{"record": path}` or
`{"failed": sentence}`. The run stops when standard input ends: the server closes it to stop the run, or has ended.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct

TRACES = "traces"  # folder of a record's traces, beside the record


class Order(Struct, frozen=True, kw_only=True):
    """Job of a worker. `folder` receives the record and the traces of the warm-up."""

    scenario: str
    folder: str
    rounds: int | None = None
    quiet_seconds: float = 60.0


def main(argument: str) -> int:
    """Run the order. Returns exit status 0 if there is a record."""
    with os.fdopen(os.dup(1), "wb", buffering=0) as out:
        os.dup2(2, 1)  # other output goes to standard error
        return _work(msgspec.json.decode(argument, type=Order), out)


def _work(order: Order, out: IO[bytes]) -> int:
    def say(news: Any) -> None:
        with contextlib.suppress(BrokenPipeError):
            out.write(msgspec.json.encode(news) + b"\n")

    stop = threading.Event()

    def await_end() -> None:
        sys.stdin.buffer.read()
        stop.set()

    threading.Thread(target=await_end, daemon=True).start()
    from engine.bench.errors import BenchError, Cancelled
    from engine.bench.record import write_record
    from engine.bench.runner import Runner
    from engine.bench.scenario import find_scenario

    folder = Path(order.folder)
    rounds = f" --rounds {order.rounds}" if order.rounds else ""
    try:
        scenario = find_scenario(order.scenario)
        record = Runner(
            scenario,
            rounds=order.rounds,
            on_progress=say,
            cancelled=stop.is_set,
            traces=folder / TRACES,
            quiet_seconds=order.quiet_seconds,
            command=f"kvtheater bench run {scenario.id}{rounds} --trace",
        ).run()
        path = folder / f"{scenario.id}.json"
        write_record(record, path)
    except Cancelled:
        say({"failed": "it was stopped before its first round was over"})
        return 130
    except (BenchError, ValueError, OSError) as error:  # ModelError is a ValueError
        say({"failed": " ".join(str(error).split())})
        return 1
    say({"record": str(path)})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
