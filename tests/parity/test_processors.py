"""Recordings of one processor are rerun, checked and forked on others."""

import os
import platform
import re
import subprocess
import sys

import pytest

from engine.trace.compare import TOLERANCE
from tests.conftest import ROOT
from tests.parity import rerun_shipped
from tests.processors import PROCESSORS

pytestmark = pytest.mark.slow


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instruction sets are those of x86-64")
@pytest.mark.parametrize("processor", PROCESSORS)
def test_shipped_recordings_rerun_and_fork(processor: str, capsys: pytest.CaptureFixture[str]) -> None:
    if settings := PROCESSORS[processor]:  # that torch reads when it is imported
        done = subprocess.run(
            [sys.executable, "-m", "tests.parity.rerun_shipped"],
            cwd=ROOT, env={**os.environ, **settings}, capture_output=True, text=True, timeout=240,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        output = done.stdout
    else:
        rerun_shipped.main()
        output = capsys.readouterr().out
    found = re.findall(r"([\w-]+): (\d+) tokens, log probabilities within (\S+)", output)
    assert {name for name, *_ in found} >= {"moon", "prefix", "preemption", "samples"}
    assert all(int(count) >= 8 and float(worst) <= TOLERANCE for _, count, worst in found)
