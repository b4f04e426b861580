"""Readings of a file by Python's and by the page's reader, with the number of records read and the state there."""

import json
import math
import select
import subprocess
from pathlib import Path
from typing import Any, Self

import msgspec

from engine.trace.apply import apply
from engine.trace.codec import TraceFormatError
from engine.trace.limits import Budget
from engine.trace.log import TraceReader
from engine.trace.state import State, TraceStateError, initial_state
from tools.node import node

ROOT = Path(__file__).resolve().parents[2]
MAX_BLOCKS = 4096  # the state of a larger pool is not compared
Reading = dict[str, Any]  # records, refused, captures and state, as in tests/js/read_traces.mjs


class LineReader:
    """Reader in a child process, which receives one path per line and answers with one line of JSON.

    It is killed when a file takes more than `seconds`, and restarted for the next one.
    """

    def __init__(self, command: list[str], seconds: float) -> None:
        self._command, self._seconds = command, seconds
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def read(self, path: Path) -> Reading:
        """Return the reading of the file, or {"crashed": reason} if the process ends, raises, or takes too long."""
        process = self._process or self._start()
        assert process.stdin and process.stdout
        process.stdin.write(f"{path}\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], self._seconds)[0]:
            self._end()
            return {"crashed": f"the reader took more than {self._seconds} s"}
        line = process.stdout.readline()
        if not line:
            self._end()
            return {"crashed": "the reader ended, perhaps out of memory"}
        found: Reading = json.loads(line)
        return found

    def _start(self) -> subprocess.Popen[str]:
        self._process = subprocess.Popen(
            self._command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        return self._process

    def _end(self) -> None:
        if self._process:
            self._process.kill()
            self._process.communicate()
            self._process = None


class NodeReader(LineReader):
    """The page's reader under node, with a heap of `megabytes`."""

    def __init__(self, megabytes: int = 512, seconds: float = 60.0) -> None:
        super().__init__([node(), f"--max-old-space-size={megabytes}", "tests/js/read_traces.mjs"], seconds)


def python_reading(path: Path) -> Reading:
    """Return the reading of Python's reader, record by record, without keyframes."""
    found: Reading = {"records": 0, "refused": None, "captures": [], "state": None}
    try:
        with TraceReader(path) as reader:
            first = initial_state(reader.header)
            try:
                _fold(reader, first, found)
            finally:
                state, budget = initial_state(reader.header), Budget()
                for index in range(found["records"]):
                    budget.read(reader.num_record_bytes(index))
                    apply(state, reader.record(index), budget)
                found["state"] = canonical(state) if len(state.blocks) <= MAX_BLOCKS else None
    except (TraceFormatError, TraceStateError) as error:
        found["refused"] = str(error)
    return found


def _fold(reader: TraceReader, state: State, found: Reading) -> None:
    budget = Budget()
    for index in range(len(reader)):
        record = reader.record(index)
        budget.read(reader.num_record_bytes(index))
        apply(state, record, budget)
        found["records"] += 1
        found["captures"].append(_is_capture(reader, index))


def _is_capture(reader: TraceReader, index: int) -> bool | None:
    try:
        return None if reader.capture(index) is None else True
    except TraceFormatError:
        return False


def canonical(value: State | Any) -> Any:
    """Return a reading as JavaScript's JSON, with bytes as lowercase hex, map keys as text, and no NaN or infinity."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, msgspec.Struct):
        return {name: canonical(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {str(key): canonical(item) for key, item in value.items()}
    if isinstance(value, list):
        return [canonical(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def disagreement(ours: Reading, theirs: Reading) -> str | None:
    """Return a description of the first difference of two readings, or None."""
    if "crashed" in theirs:
        return str(theirs["crashed"])
    for name in ("records", "captures"):
        if ours[name] != theirs[name]:
            return f"{name}: {ours[name]} by Python, {theirs[name]} by the page; {_why(ours)} and {_why(theirs)}"
    if (ours["refused"] is None) != (theirs["refused"] is None):
        return f"{_why(ours)} by Python, and {_why(theirs)} by the page"
    if ours["state"] != theirs["state"]:
        names = [n for n in ours["state"] or {} if ours["state"][n] != (theirs["state"] or {}).get(n)]
        return f"the states differ in {', '.join(names) or 'all'}"
    return None


def _why(reading: Reading) -> str:
    return "accepted" if reading["refused"] is None else f"refused ({reading['refused'][:200]})"
