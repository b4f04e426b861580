"""`python -m tests.fuzz.reader` prints a line of JSON with the result of Python's reader per path on standard input."""

import io
import json
import resource
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.session.summary import summarize
from engine.trace.check import check
from engine.trace.codec import TraceFormatError
from engine.trace.compare import compare
from engine.trace.explain import overview, timelines
from engine.trace.export.kv_events import write_kv_events_json
from engine.trace.export.perfetto import write_perfetto
from engine.trace.export.tables import event_rows, step_rows
from engine.trace.log import TraceReader
from engine.trace.state import TraceStateError
from tests.fuzz.readers import python_reading

ADDRESS_SPACE = 2 << 30  # bytes with mapped libraries, far more than the readers use
USES: list[Callable[[TraceReader], object]] = [
    lambda log: compare(log, log),
    overview,
    timelines,
    lambda log: write_perfetto(log, io.BytesIO()),
    lambda log: write_kv_events_json(log, io.BytesIO()),
    lambda log: list(step_rows(log)) + list(event_rows(log)),
]


def read_everything(path: Path) -> None:
    """Check, list, read, fold, explain, compare and export an untrusted file as the program does."""
    for _ in check(path):
        pass
    try:
        summarize(path)
    except TraceFormatError:
        return
    for use in USES:
        with TraceReader(path) as reader:
            try:
                use(reader)
            except (TraceFormatError, TraceStateError):
                continue
    for verify in (True, False):
        try:
            with TraceReader(path, verify) as reader:
                for index in range(len(reader)):
                    reader.record(index)
                    reader.capture(index)
                _ = reader.whole_end
                for index in {0, len(reader) // 2, len(reader) - 1} if len(reader) else ():
                    reader.state_at(index)
        except (TraceFormatError, TraceStateError):
            continue


def reading(path: Path) -> dict[str, Any]:
    """Return Python's reading and the seconds of checking, or `crashed` after any but the two documented errors."""
    try:
        started = time.process_time()
        for _ in check(path):
            pass
        seconds = time.process_time() - started
        read_everything(path)
        return {**python_reading(path), "seconds": seconds}
    except BaseException:  # including RecursionError and MemoryError
        return {"crashed": traceback.format_exc()}


def main() -> None:
    """Read the files of all paths on standard input."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    for line in sys.stdin:
        print(json.dumps(reading(Path(line.strip()))), flush=True)


if __name__ == "__main__":
    main()
