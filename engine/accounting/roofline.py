"""How the two roofs of a roofline follow from timed runs (Williams et al., "Roofline", CACM 52(4), 2009).

A step of intensity I = FLOPs / bytes moved can reach min(peak FLOP/s, I · bandwidth). Both roofs are rates that this
machine reached, measured (`engine.machine`), not the vendor's figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median


def matmul_flops(n: int) -> int:
    """Operations of an n × n by n × n product: n² results of n multiplies and n adds."""
    return 2 * n**3


def copy_traffic(num_bytes: int) -> int:
    """Bytes moved by copying an array: each is read once and written once (the convention of STREAM)."""
    return 2 * num_bytes


def rate(work: float, seconds: Sequence[float]) -> float:
    """Work a second at the median of several runs: one run that was disturbed does not count.

    Raises:
        ValueError: no run, or one that took no time.
    """
    if not seconds or min(seconds) <= 0:
        raise ValueError("a rate needs runs that took time")
    return work / median(seconds)
