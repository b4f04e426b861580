"""Benchmark process of the server: `python -m app.bench.worker ORDER`.

In the server's process, the timed code would share an interpreter with the server's threads, whose CPU time could not
be separated from the benchmark's. In a process of its own, the server counts as another program, whose CPU time is in
the record.

ORDER is an `Order` as JSON. Standard output gets a line of JSON for each `Progress`, and at the end `{"record": path}`
or `{"failed": sentence}`. The run stops when standard input ends, which the server closes to stop the run.
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
    """Benchmark to run. The record and the traces of the warm-up are written to `folder`."""

    scenario: str
    folder: str
    rounds: int | None = None
    quiet_seconds: float = 60.0


def main(argument: str) -> int:
    """Run an `Order`. Returns exit status 0 if a record was written."""
    with os.fdopen(os.dup(1), "wb", buffering=0) as out:
        os.dup2(2, 1)  # other output goes to standard error
        return _work(msgspec.json.decode(argument, type=Order), out)


def _work(order: Order, out: IO[bytes]) -> int:
    def send(message: Any) -> None:
        with contextlib.suppress(BrokenPipeError):
            out.write(msgspec.json.encode(message) + b"\n")

    stop = threading.Event()

    def stop_with_input() -> None:
        sys.stdin.buffer.read()
        stop.set()

    threading.Thread(target=stop_with_input, daemon=True).start()
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
            on_progress=send,
            cancelled=stop.is_set,
            traces=folder / TRACES,
            quiet_seconds=order.quiet_seconds,
            command=f"kvtheater bench run {scenario.id}{rounds} --trace",
        ).run()
        path = folder / f"{scenario.id}.json"
        write_record(record, path)
    except Cancelled:
        send({"failed": "it was stopped before the end of its first round"})
        return 130
    except (BenchError, ValueError, OSError) as error:  # ModelError is a ValueError
        send({"failed": " ".join(str(error).split())})
        return 1
    send({"record": str(path)})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
