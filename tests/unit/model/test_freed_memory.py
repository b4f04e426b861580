"""Memory of the C allocator between steps, in a process of its own: its policy holds for a whole process."""

import ctypes
import subprocess
import sys

import pytest

FAULTS = """
import resource, torch
from engine.model.freed_memory import keep_freed_memory
if {keep}:
    keep_freed_memory()

def step():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [torch.ones(2**20) for _ in range(12)]  # of 4 MiB, as a prefill's
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

step(), step()
print(sum(step() for _ in range(4)))
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="another C library than glibc")
def test_a_step_reuses_the_memory_of_the_one_before() -> None:
    def faults(keep: bool) -> int:
        return int(subprocess.check_output([sys.executable, "-c", FAULTS.format(keep=keep)], text=True))

    assert faults(True) * 10 < faults(False)
