"""Prefill as a queue on one GPU and on several: formulas, crossings, and refusals."""

import numpy as np
import pytest

from engine.simulate.queues import ARRANGEMENTS, Arrangement, Prefill, crossing, highest_rate, mean_ttft, share_within


@pytest.mark.parametrize("speedup", [1.3, 1.5, 1.7])
@pytest.mark.parametrize("load", [0.1, 0.5, 0.9])
def test_mean_ttft_equals_the_three_formulas_of_the_paper(speedup: float, load: float) -> None:
    """Equations 1 to 3 of arXiv 2401.09670 v3 are evaluated for D = 0.4 s and two GPUs."""
    d, k = 0.4, speedup
    r = load / d
    prefill = Prefill(service=d, speedup=k)
    assert mean_ttft(prefill, "one", r).value == pytest.approx(d + r * d**2 / (2 * (1 - r * d)))
    assert mean_ttft(prefill, "inter", r).value == pytest.approx(d + r * d**2 / (4 * (2 - r * d)))
    assert mean_ttft(prefill, "intra", r).value == pytest.approx(d / k + r * d**2 / (2 * k * (k - r * d)))


def test_the_formula_is_shown_with_its_numbers() -> None:
    found = mean_ttft(Prefill(service=0.4, speedup=1.5), "intra", 2.0)
    assert found.with_numbers() == "0.4 / 1.5 + 2 · 0.4² / (2 · 1.5 · (1.5 − 2 · 0.4))"
    assert (found.unit, {factor.meaning for factor in found.factors}) == (
        "s",
        {"service_time", "arrival_rate", "speedup"},
    )


@pytest.mark.parametrize(
    ("speedup", "exact", "load"), [(1.3, 0.6106, 0.611), (1.5, 0.9361, 0.937), (1.7, 1.2571, 1.258)]
)
def test_the_crossing_is_the_load_at_which_stages_become_faster(speedup: float, exact: float, load: float) -> None:
    """The crossing R · D does not depend on D. Stages are faster from `load` on, in steps of a thousandth."""
    for d in (0.05, 1.0):
        prefill = Prefill(service=d, speedup=speedup)
        found = crossing(prefill)
        assert found is not None and found == pytest.approx(exact, abs=5e-5)

        def ahead(at: float, prefill: Prefill = prefill) -> float:
            intra, inter = (mean_ttft(prefill, side, at / prefill.service).value for side in ("intra", "inter"))
            return inter - intra

        assert ahead(found) == pytest.approx(0, abs=1e-12)
        assert ahead(load - 0.001) > 0 > ahead(load)


def test_stages_are_never_faster_than_perfect_splitting() -> None:
    assert crossing(Prefill(service=1.0, gpus=4, speedup=4.0)) is None


def test_a_smaller_speed_up_favours_stages() -> None:
    found = [crossing(Prefill(service=1.0, gpus=4, speedup=speedup)) or 0.0 for speedup in (1.5, 2.0, 3.0, 3.9)]
    assert found == sorted(found) and found[-1] < 3.9


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_mean_and_share_within_equal_a_simulated_queue(arrangement: Arrangement) -> None:
    """Stages are servers in a row. A request enters a stage when it has left the previous one and the stage is free."""
    prefill, rate = Prefill(service=0.5, gpus=4, speedup=2.5), 1.6
    stages = {"one": [0.5], "inter": [0.125] * 4, "intra": [0.2]}[arrangement]
    arrives = np.cumsum(np.random.default_rng(3).exponential(1 / rate, 200_000))
    leaves = arrives
    for stage in stages:  # done(i) = max(done(i − 1), comes(i)) + stage
        behind = stage * np.arange(len(leaves))
        leaves = np.maximum.accumulate(leaves - behind) + behind + stage
    times = leaves - arrives
    assert mean_ttft(prefill, arrangement, rate).value == pytest.approx(float(times.mean()), rel=0.03)
    for ttft in (0.3, 0.55, 0.7, 1.2):
        assert share_within(prefill, arrangement, rate, ttft) == pytest.approx(float((times <= ttft).mean()), abs=0.01)


def test_the_highest_rate_just_meets_the_share() -> None:
    prefill = Prefill(service=0.1, gpus=2, speedup=1.6)
    for arrangement in ARRANGEMENTS:
        rate = highest_rate(prefill, arrangement, 0.25, 0.9)
        assert share_within(prefill, arrangement, rate * 0.999, 0.25) >= 0.9
        assert share_within(prefill, arrangement, rate * 1.001, 0.25) < 0.9
    assert (
        highest_rate(prefill, "inter", 0.09) == 0 < highest_rate(prefill, "intra", 0.09)
    )  # only splitting is fast enough


@pytest.mark.parametrize(
    ("arrangement", "load", "error"), [("one", 1.0, "< 1"), ("inter", 3.0, "< 3"), ("intra", 2.2, "< 2.2")]
)
def test_loads_beyond_capacity_are_refused(arrangement: Arrangement, load: float, error: str) -> None:
    prefill = Prefill(service=0.5, gpus=3, speedup=2.2)
    with pytest.raises(ValueError, match=f"grows without end unless R · D {error}"):
        mean_ttft(prefill, arrangement, load / 0.5)
    with pytest.raises(ValueError, match="grows without end"):
        share_within(prefill, arrangement, load / 0.5, 1.0)
    assert mean_ttft(prefill, arrangement, 0.99 * load / 0.5).value > 0.5


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"service": 0}, "longer than 0 s"),
        ({"service": float("inf")}, "longer than 0 s"),
        ({"gpus": 1}, "at least 2"),
        ({"speedup": 1.0}, "more than 1"),
        ({"speedup": 2.1}, "at most 2"),
    ],
)
def test_impossible_arrangements_are_refused(wrong: dict[str, float], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        mean_ttft(Prefill(**{"service": 1.0, **wrong}), "one", 0.1)  # type: ignore[arg-type]
