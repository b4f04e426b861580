"""Memory of the C allocator between steps, in a separate process because the policy is set per process."""

import ctypes
import subprocess
import sys

import pytest

FAULTS = """
import ctypes, resource, sys
from engine.model.freed_memory import keep_freed_memory

c = ctypes.CDLL(None)
c.malloc.restype, c.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
c.memset.argtypes, c.free.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t], [ctypes.c_void_p]

def step():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [c.malloc(2**22) for _ in range(12)]  # number and size of the arrays of a prefill
    for array in arrays:
        c.memset(array, 1, 2**22)
    for array in arrays:
        c.free(array)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

if sys.argv[1:]:
    keep_freed_memory()
step(), step()
print(sum(step() for _ in range(4)))
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="another C library than glibc")
@pytest.mark.slow
def test_a_step_reuses_the_memory_of_the_previous_step() -> None:
    def faults(*words: str) -> int:
        return int(subprocess.check_output([sys.executable, "-c", FAULTS, *words], text=True))

    assert faults("keep") * 10 < faults()
