"""What was recorded on one processor is run again, checked and forked on others."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys

import pytest

from engine.trace.compare import TOLERANCE
from tests.conftest import ROOT
from tests.processors import PROCESSORS

pytestmark = pytest.mark.slow


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instruction sets are those of x86-64")
@pytest.mark.parametrize("processor", PROCESSORS)
def test_shipped_recordings_come_again_and_fork(processor: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.parity.rerun_shipped"],
        cwd=ROOT, env={**os.environ, **PROCESSORS[processor]}, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = re.findall(r"([\w-]+): (\d+) tokens, log probabilities within (\S+)", done.stdout)
    assert {name for name, *_ in found} >= {"moon", "prefix", "preemption", "samples"}
    assert all(int(count) >= 8 and float(worst) <= TOLERANCE for _, count, worst in found)
