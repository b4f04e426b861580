"""CPU use of other programs excludes the processes of this one."""

import subprocess
import sys
import time

import pytest

from engine.bench.quiet import CpuTimes, busy_cpus, cpu_times

SPIN = "import time; print(flush=True); end = time.process_time() + {}\nwhile time.process_time() < end: pass"


def test_cpu_time_of_other_programs_is_the_machines_minus_the_own() -> None:
    assert busy_cpus(CpuTimes(10.0, 4.0, 0.0), CpuTimes(13.0, 5.0, 4.0)) == (3 - 1) / 4
    assert busy_cpus(CpuTimes(10.0, 4.0, 0.0), CpuTimes(10.5, 5.0, 4.0)) == 0, "clocks of one tick"
    assert busy_cpus(None, cpu_times()) is None


@pytest.mark.slow
def test_cpu_time_of_descendants_counts_as_own() -> None:
    """A grandchild computes for half a second. It counts while it runs and after its end."""
    spin = SPIN.format(0.5)
    middle = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {spin!r}])"
    before = cpu_times()
    assert before is not None
    child = subprocess.Popen([sys.executable, "-c", middle], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    end, during = time.monotonic() + 20, 0.0
    while child.poll() is None and time.monotonic() < end and during < 0.3:
        now = cpu_times()
        assert now is not None
        during = now.own - before.own
    assert during >= 0.3, "while it runs"
    child.communicate()
    after = cpu_times()
    assert after is not None and after.own - before.own >= 0.5
    assert after.machine >= before.machine
