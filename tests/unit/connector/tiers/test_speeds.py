"""Decision between loading and computing blocks."""

import pytest

from engine.connector.tiers.speeds import DECAY, HALF_LIFE, Line, Measured, Planned, Speeds, line_through

MODEL = b"layout"
LINE = Line(seconds_per_block=0.001, seconds_per_byte=1e-6)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_transfer_speed_is_a_line_through_two_measurements() -> None:
    line = line_through(Measured(1000, 0.002), Measured(3000, 0.004))
    assert line == pytest.approx((0.001, 1e-6))  # 0.002 s more for 2000 bytes more
    assert line.seconds(blocks=2, num_bytes=4000) == pytest.approx(0.006)
    assert line_through(Measured(1000, 0.004), Measured(3000, 0.002)) == (0.004, 0.0)  # never below 0
    assert line_through(Measured(1000, 0.001), Measured(3000, 0.004)) == pytest.approx((0.0, 1.5e-6))


def test_unmeasured_tiers_load_blocks() -> None:
    speeds = Speeds(Clock())
    speeds.add_tier("disk", None)
    planned = [Planned("disk", 2, 4000)]
    assert speeds.worth_loading(MODEL, 32, planned) == (True, None, None)
    speeds.note_prefill(MODEL, 100, 0.001)
    assert speeds.worth_loading(MODEL, 32, planned) == pytest.approx((True, None, 0.00032))
    speeds.note_load("disk", 2000, 0.1)  # the first load gives the seconds per byte
    assert speeds.worth_loading(MODEL, 32, planned) == pytest.approx((False, 0.2, 0.00032))


def test_the_faster_of_load_and_compute_is_chosen() -> None:
    speeds = Speeds(Clock())
    speeds.add_tier("disk", LINE)
    speeds.add_tier("cpu", Line(0.0, 0.0))
    speeds.note_prefill(MODEL, 50, 0.05)  # 1 ms a token
    planned = [Planned("disk", 2, 4000), Planned("cpu", 1, 2000)]  # 2 · 1 ms + 4000 · 1 µs = 6 ms, and 0
    assert speeds.worth_loading(MODEL, 7, planned) == pytest.approx((True, 0.006, 0.007))
    assert speeds.worth_loading(MODEL, 5, planned) == pytest.approx((False, 0.006, 0.005))
    speeds.note_placing(1000, 0.0005)  # 0.5 µs more for each of 6000 bytes
    assert speeds.worth_loading(MODEL, 7, planned) == pytest.approx((False, 0.009, 0.007))


def test_prefill_seconds_per_token_are_a_decaying_mean() -> None:
    speeds = Speeds(Clock())
    speeds.note_prefill(MODEL, 100, 0.1)
    speeds.note_prefill(MODEL, 300, 0.9)
    assert speeds.seconds_per_prefill_token(MODEL) == pytest.approx((DECAY * 0.1 + 0.9) / (DECAY * 100 + 300))
    assert speeds.seconds_per_prefill_token(b"another model's") is None


def test_measured_loads_change_the_estimate_and_their_effect_decays() -> None:
    clock = Clock()
    speeds = Speeds(clock)
    speeds.add_tier("disk", LINE)
    assert speeds.speed("disk") == LINE
    for _ in range(200):
        speeds.note_load("disk", 1000, 0.020)  # expected 0.002
    slow = speeds.speed("disk")
    assert slow is not None and slow.seconds_per_block == pytest.approx(0.010, rel=1e-3)
    clock.now += HALF_LIFE
    later = speeds.speed("disk")
    assert later is not None and later == pytest.approx((0.0055, 5.5e-6), rel=1e-3)  # 1 + (10 - 1) / 2
    speeds.note_load("disk", 1000, 0.002)  # the speed at opening; the earlier deviation has decayed by half
    now = speeds.speed("disk")
    assert now is not None and 0.001 < now.seconds_per_block < later.seconds_per_block
