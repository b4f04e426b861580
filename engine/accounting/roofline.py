"""How the two roofs of a roofline follow from timed runs (Williams et al., "Roofline", CACM 52(4), 2009).

A step of intensity I = FLOPs / bytes moved can reach min(peak FLOP/s, I · bandwidth). Both roofs are rates that this
machine reached, measured (`engine.setup.machine`), not the vendor's figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from engine.trace.records import Work


def matmul_flops(n: int) -> int:
    """Operations of an n × n by n × n product: n² results of n multiplies and n adds."""
    return 2 * n**3


def copy_traffic(num_bytes: int) -> int:
    """Return the bytes moved by copying an array: each is read once and written once (the convention of STREAM)."""
    return 2 * num_bytes


def rate(work: float, seconds: Sequence[float]) -> float:
    """Work a second at the median of several runs: one run that was disturbed does not count.

    Raises:
        ValueError: no run, or one that took no time.
    """
    if not seconds or min(seconds) <= 0:
        raise ValueError("a rate needs runs that took time")
    return work / median(seconds)


def bytes_moved(work: Work | None) -> int:
    """Return the bytes of weights and of K and V that a step reads and writes; 0 where nothing was counted."""
    return work.weight_bytes + work.kv_read_bytes + work.kv_write_bytes if work else 0


def least_seconds(work: Work, flops_per_second: float, bytes_per_second: float) -> float:
    """Return the least time of a step under two roofs: max(F / P, M / W). Computing and moving overlap at best."""
    return max(work.flops / flops_per_second, bytes_moved(work) / bytes_per_second)
