"""An interrupted start ends with at most one sentence and leaves no process behind, at any moment."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
DELAYS = (0.15, 0.4, 0.8, 1.5, 3.0, 6.0)  # seconds
GONE_SECONDS = 5.0


INTERRUPT = """
import os, runpy, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
runpy.run_module("app", run_name="__main__", alter_sys=False)
"""


def of_session(session: int) -> list[str]:
    """Return the command lines of the processes that a start has launched."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


@pytest.mark.parametrize(("number", "statuses"), [(signal.SIGINT, (0, 130)), (signal.SIGTERM, (0, -signal.SIGTERM))])
def test_a_start_that_is_interrupted(number: signal.Signals, statuses: tuple[int, ...], tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("kvtheater")
    for delay in DELAYS:  # a first start each: it begins to compile
        folder = tmp_path / str(delay)
        command = [str(program), "serve", "--port", "0", "--data-dir", str(folder / "data")]
        process = subprocess.Popen(
            command,
            env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        time.sleep(delay)
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
        if str(ROOT / "app") in output or "Traceback" not in output:  # else Python itself was still starting
            assert process.returncode in statuses and "Traceback" not in output, (delay, process.returncode, output)
        until = time.monotonic() + GONE_SECONDS
        while (left := of_session(process.pid)) and time.monotonic() < until:
            time.sleep(0.05)
        assert not left, (delay, left)


def test_an_interrupt_within_an_import_ends_quietly() -> None:
    """An exception there could be lost, or crash a library that is half imported."""
    for module in ("app.ground.working", "app.cli", "numpy", "app.cli.size"):
        ran = subprocess.run([sys.executable, "-c", INTERRUPT, module], cwd=ROOT, capture_output=True, text=True)
        assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "kvtheater: stopped\n"), module
