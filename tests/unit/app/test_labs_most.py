"""Limit of concurrent labs, from memory and from a step's time."""

import pytest

from app.classroom.labs import MAX_LABS, max_labs

MIB = 1 << 20


@pytest.mark.parametrize(
    ("lab_mib", "free_mib", "step_seconds", "most", "by"),
    [
        (100, 2000, 0.001, 10, "memory"),  # half of the free memory, divided by the size of a lab
        (100, 100, 0.001, 0, "memory"),
        (1, 100_000, 0.001, MAX_LABS, "most"),
        (1, 100_000, 0.010, 16, "speed"),  # a sixth of a second is 16 steps of 10 ms
        (1, 100_000, 0.025, 6, "speed"),
        (1, 100_000, 0.5, 1, "speed"),  # one lab is always allowed if memory suffices
        (1, 100_000, 0.0, MAX_LABS, "most"),
        (1, 100_000, None, 1, "unmeasured"),
        (100, 150, None, 0, "memory"),
    ],
)
def test_the_limit_of_labs_follows_from_memory_and_step_time(
    lab_mib: int, free_mib: int, step_seconds: float | None, most: int, by: str
) -> None:
    found, why = max_labs(lab_mib * MIB, free_mib * MIB, step_seconds)
    assert (found, why["by"]) == (most, by)
    assert why["lab_bytes"] == lab_mib * MIB and why["step_seconds"] == step_seconds
