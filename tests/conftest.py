"""Fixtures of a live server over the bundled model, and of the test workers."""

import gc
import os
import re
import shutil
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.imported import OTHERS
from tests.preloaded import PreloadedPopen, fork_workers

# Without a GPU, Triton's interpreter runs the kernels. The variable must be set before anything imports triton.
if shutil.which("nvidia-smi") is None:
    os.environ.setdefault("TRITON_INTERPRET", "1")

# Chromium, servers and tests share the cores. Threads that busy-wait for a thread without a core make a forward pass
# twenty times slower, so spinning is disabled before torch loads libgomp.
os.environ.setdefault("GOMP_SPINCOUNT", "0")

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 180.0  # importing torch and loading the model, on a busy machine


# rough average seconds per test; the first matching path prefix applies
SECONDS = {
    "tests/parity/test_compiled.py": 8.0,
    "tests/parity/test_processors.py": 5.0,
    "tests/unit/bench/test_runner.py": 2.0,
    "tests/unit/cluster/test_process.py": 2.0,
    "tests/unit/lab/test_examples.py": 4.0,
    "tests/browser/": 2.5,
    "tests/attack/": 0.5,
    "tests/server/": 0.3,
    "tests/": 0.1,
}
SPENT: defaultdict[str, float] = defaultdict(float)  # seconds of each test, including fixtures
LONG = Path(__file__).parent / "long.txt"  # tests that `--short` leaves out
LONG_SECONDS, BEARABLE_SECONDS = 2.0, 10.0
FAST = ("tests/unit/", "tests/property/", "tests/parity/")  # folders that `--fast` runs, except tests marked slow


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="only tests without a browser, a compiler or another process")
    parser.addoption("--rest", action="store_true", help="only tests that --fast leaves out")
    parser.addoption("--short", action="store_true", help=f"leave out the tests that {LONG.name} lists")
    parser.addoption("--find-long", action="store_true", help=f"write {LONG.name}; run all tests on a quiet machine")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: starts a process, compiles, or takes seconds: left out by --fast")


@pytest.fixture(scope="session", autouse=True)
def forbid_processes(pytestconfig: pytest.Config) -> Iterator[None]:
    """Fail tests that start a process under `--fast`; the message names the marker to add."""
    if not pytestconfig.getoption("--fast"):
        yield
        return
    started = subprocess.Popen.__init__

    def start(self: Any, args: Any, *rest: Any, **options: Any) -> None:
        """Allow only the compilation of the engine's C functions, which takes two seconds per worker."""
        if not any(str(word).endswith("kernels.so") for word in args):
            raise AssertionError("this test starts a process: mark it `slow`")
        started(self, args, *rest, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "__init__", start)
        yield


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # a worker of pytest-xdist: files are distributed in this order
        seconds: defaultdict[str, float] = defaultdict(float)
        for item in items:
            file = item.nodeid.partition("::")[0]
            seconds[file] += next(each for begins, each in SECONDS.items() if file.startswith(begins))
        items.sort(key=lambda item: -seconds[item.nodeid.partition("::")[0]])
    if config.getoption("--short"):
        long = set(LONG.read_text(encoding="utf-8").splitlines())
        left_out = [item for item in items if not long.isdisjoint((item.nodeid, item.nodeid.partition("[")[0]))]
        if len(left_out) < len(items):  # if all are long, they were named explicitly
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item not in set(left_out)]
    fast, rest = config.getoption("--fast"), config.getoption("--rest")
    if not (fast or rest):
        return
    is_fast = {item: item.nodeid.startswith(FAST) and item.get_closest_marker("slow") is None for item in items}
    config.hook.pytest_deselected(items=[item for item in items if is_fast[item] != fast])
    items[:] = [item for item in items if is_fast[item] == fast]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    SPENT[report.nodeid] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the list of long tests.

    If all tests of a file are long, the shortest is not listed, provided that it takes at most BEARABLE_SECONDS.
    """
    config = session.config
    if not config.getoption("--find-long") or hasattr(config, "workerinput"):
        return
    long = {test for test, seconds in SPENT.items() if seconds > LONG_SECONDS}
    for _, tests in groupby(sorted(SPENT), lambda test: test.partition("::")[0]):
        of_file = list(tests)
        shortest = min(of_file, key=SPENT.__getitem__)
        if long.issuperset(of_file) and SPENT[shortest] <= BEARABLE_SECONDS:
            long.remove(shortest)
    whole = [list(tests) for _, tests in groupby(sorted(SPENT), lambda test: test.partition("[")[0])]
    listed = [of[0].partition("[")[0] if long.issuperset(of) else test for of in whole for test in of if test in long]
    LONG.write_text("\n".join(dict.fromkeys(listed)) + "\n", encoding="utf-8")


def pytest_collection_finish() -> None:
    """Exclude the objects of torch, transformers and the collected tests from garbage collection.

    A collection then takes 5 ms instead of over 200 ms, and the benchmark runs one before each run.
    """
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # extension modules would report frozen objects as leaked at exit


def pytest_xdist_setupnodes() -> None:
    """Import torch, transformers and the other dependencies in one process, not in each worker and its forks."""
    fork_workers(*OTHERS)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    """Schedule whole files on several workers (`-n 2`), longest first, so that workers end at about the same time."""
    config.option.loadscopereorder = False  # the default order is by number of tests, which says little about time
    return LoadFileScheduling(config, log)


@pytest.fixture(scope="session")
def live_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of `kvtheater serve` on a free port, stopped at the end of the session."""
    data = tmp_path_factory.mktemp("data")
    options = ["--enforce-eager", "--port", "0", "--max-theaters", "96", "--data-dir", str(data)]
    process = PreloadedPopen(
        [sys.executable, "-m", "app", "serve", *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    lines: list[str] = []
    found: list[str] = []
    ready = threading.Event()

    def read() -> None:
        """Read to the end, so that the server never waits for a full pipe."""
        for line in process.stdout or ():
            lines.append(line)
            address = re.search(r"http://\S+", line)
            if address and not found:
                found.append(address.group().rstrip("/"))
            if " is ready on " in line:  # printed after the model is loaded
                ready.set()
        ready.set()  # the server ended

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        ready.wait(START_SECONDS)
        if not found or process.poll() is not None:
            pytest.fail("the server did not start:\n" + "".join(lines))
        yield found[0]
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
