"""Small traces that would hang, fill or end a reader: both refuse the same, in bounded time and memory."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.session.summary import summarize
from engine.trace.codec import TraceFormatError
from engine.trace.compare import compare
from engine.trace.explain import overview, timelines
from engine.trace.log import TraceReader
from engine.trace.state import TraceStateError
from tests.fuzz.hostile import MAX_BYTES, TRACES, make_all
from tests.fuzz.readers import NodeReader, disagreement, python_reading

ROOT = Path(__file__).resolve().parents[2]
MEMORY = 300  # MiB of a process that checks one of them, all that it imports included
HEAP = 512  # MiB of the page's reader, which reads all of them one after the other
HANG = 60  # seconds; none takes more than three
# A process that has its imports forks one for each list of files, which is the command with a memory of its own. It
# says how that one ended, and how many KiB it had at most: those that it began with are counted as its own.
EACH_APART = """
import json, os, sys
from app.cli import main
for paths in json.loads(sys.argv[1]):
    pid = os.fork()
    if pid == 0:
        status = main(["trace", "check", *paths])
        sys.stdout.flush()
        os._exit(status)
    _, status, used = os.wait4(pid, 0)
    print(json.dumps([os.waitstatus_to_exitcode(status), used.ru_maxrss]), file=sys.stderr, flush=True)
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write all hostile traces as files."""
    folder = tmp_path_factory.mktemp("hostile")
    found = {}
    for number, (name, data, _) in enumerate(make_all()):
        assert len(data) <= MAX_BYTES, name
        found[name] = folder / f"{number}.kvtrace"
        found[name].write_bytes(data)
    return found


@pytest.fixture(scope="module")
def node() -> Iterator[NodeReader]:
    with NodeReader(HEAP, HANG) as reader:
        yield reader


@pytest.mark.parametrize("name", TRACES)
def test_both_readers_agree(name: str, files: dict[str, Path], node: NodeReader) -> None:
    ours, theirs = python_reading(files[name]), node.read(files[name])
    assert disagreement(ours, theirs) is None
    refused = TRACES[name].refused
    if refused is None:
        assert ours["refused"] is None
    else:
        assert refused in ours["refused"] and refused in theirs["refused"]


def test_each_is_checked_in_bounded_memory(files: dict[str, Path]) -> None:
    """The command exits with status 1 on every file and prints no stack trace. No file is sound."""
    large = [path for path in files.values() if path.stat().st_size > 100_000]
    small = [path for path in files.values() if path not in large]
    done = subprocess.run(
        [sys.executable, "-c", EACH_APART, json.dumps([list(map(str, small)), *([str(path)] for path in large)])],
        cwd=ROOT, capture_output=True, text=True, timeout=HANG + len(large),
    )  # fmt: skip
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert all(f"{path}: " in done.stdout and f"{path}: sound" not in done.stdout for path in files.values())
    ended = [json.loads(line) for line in done.stderr.splitlines()]
    assert [status for status, _ in ended] == [1] * (1 + len(large))
    for (_, kib), paths in zip(ended, [small, *large], strict=True):
        assert kib // 1024 < MEMORY, f"{paths}: {kib // 1024} MiB"


@pytest.mark.parametrize("name", [name for name, trace in TRACES.items() if trace.refused == "would copy"])
def test_every_reader_refuses_contradictory_traces(name: str, files: dict[str, Path]) -> None:
    with TraceReader(files[name]) as reader, pytest.raises(TraceStateError):
        reader.state_at(len(reader) - 1)


@pytest.mark.parametrize("name", TRACES)
def test_every_reader_terminates(name: str, files: dict[str, Path]) -> None:
    """Each reader returns or raises one of its two errors. It shares this process's memory, so only its time is
    bounded.
    """
    try:
        summarize(files[name])
    except TraceFormatError:
        return
    for use in (lambda log: compare(log, log), overview, timelines):
        with TraceReader(files[name]) as reader:
            try:
                use(reader)
            except (TraceFormatError, TraceStateError) as error:
                assert str(error)


def test_forks_of_a_long_prompt_are_not_compared(files: dict[str, Path]) -> None:
    """The forks, 3,000 of 60,000 tokens, are 180,000,000 tokens; a file of this size allows 4,194,304 + 16 ·
    387,000.
    """
    with TraceReader(files["3,000 forks of 60,000 tokens"]) as log:
        with pytest.raises(TraceStateError, match="would copy"):
            compare(log, log)
        with pytest.raises(TraceStateError, match="would copy"):
            overview(log)
