"""Roofs of a roofline: arithmetic by hand, and one measurement of this machine."""

import pytest
import torch

from engine.accounting.roofline import copy_traffic, matmul_flops, rate
from engine.setup import machine


def test_a_product_of_2x2_matrices_counts_16_operations() -> None:
    """Each of 4 results takes 2 multiplies and 2 adds (the first add is counted, as everywhere)."""
    assert matmul_flops(2) == 4 * (2 + 2)
    assert matmul_flops(1024) == 2**31


def test_a_copy_reads_and_writes_every_byte() -> None:
    assert copy_traffic(64 << 20) == 128 << 20


def test_the_rate_is_computed_from_the_median_run() -> None:
    """The median of 1, 2 and 10 seconds is 2, so the rate is 8 / 2 = 4 a second despite the slow run."""
    assert rate(8, [1.0, 10.0, 2.0]) == 4.0
    assert rate(8, [2.0, 6.0]) == 2.0


@pytest.mark.parametrize("seconds", [[], [0.0], [1.0, -1.0]])
def test_a_rate_without_time_is_refused(seconds: list[float]) -> None:
    with pytest.raises(ValueError):
        rate(1, seconds)


def test_a_machine_is_measured_once_per_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_roofs", {})
    cpu = torch.device("cpu")
    assert machine.machine_facts(cpu, torch.float32).roofs is None
    roofs = machine.measure_roofs(cpu, torch.float32)
    assert machine.measure_roofs(cpu, torch.float32) is roofs
    assert machine.machine_facts(cpu, torch.float32).roofs is roofs
    assert machine.machine_facts(cpu, torch.bfloat16).roofs is None  # another dtype, another roof
    assert (roofs.dtype, roofs.matmul_runs, roofs.copy_runs) == ("float32", machine.RUNS, machine.RUNS)


def test_the_matrix_size_doubles_until_a_product_takes_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product takes 1 ms up to size 512, and 8 ms for 2 · 1024³ operations. A copy of 128 MiB takes 8 ms."""
    took = iter([[0.001] * 5, [0.001] * 5, [0.008] * 5, [0.008] * 5])
    monkeypatch.setattr(machine, "_timed", lambda work, device: next(took))
    roofs = machine._measure(torch.device("cpu"), torch.float32)
    assert roofs.matmul_size == 1024
    assert roofs.flops_per_second == pytest.approx(2 * 1024**3 / 0.008)
    assert roofs.bytes_per_second == pytest.approx(2 * (64 << 20) / 0.008)
