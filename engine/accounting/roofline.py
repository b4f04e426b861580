"""Roofs of a roofline from timed runs (Williams et al., "Roofline", CACM 52(4), 2009).

A step with intensity I = FLOPs / bytes moved reaches at most min(peak FLOP/s, I · bandwidth). Both roofs are measured
on the machine (`engine.setup.machine`), not taken from the vendor.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from engine.trace.records import Work


def matmul_flops(n: int) -> int:
    """Return the operations of an n × n by n × n product: n² results of n multiplies and n adds."""
    return 2 * n**3


def copy_traffic(num_bytes: int) -> int:
    """Return the bytes moved by copying an array. Each byte counts as read and written (the convention of STREAM)."""
    return 2 * num_bytes


def rate(work: float, seconds: Sequence[float]) -> float:
    """Return the work per second at the median time. Raises ValueError: no runs, or a run of 0 seconds."""
    if not seconds or min(seconds) <= 0:
        raise ValueError("a rate needs at least one run, and each must take more than 0 s")
    return work / median(seconds)


def bytes_moved(work: Work | None) -> int:
    """Return the bytes of weights, K and V that a step reads and writes, or 0 if `work` is None."""
    return work.weight_bytes + work.kv_read_bytes + work.kv_write_bytes if work else 0


def least_seconds(work: Work, flops_per_second: float, bytes_per_second: float) -> float:
    """Return the minimum time of a step under two roofs: max(F / P, M / W), with full overlap."""
    return max(work.flops / flops_per_second, bytes_moved(work) / bytes_per_second)
