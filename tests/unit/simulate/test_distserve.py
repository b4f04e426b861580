"""Reproduction of DistServe's figures: the shapes of the paper's argument, and its printed numbers."""

from itertools import pairwise

import pytest

from engine.simulate import distserve, waiting
from engine.simulate.distserve import Paper, PaperFigure


@pytest.fixture(scope="module")
def paper() -> Paper:
    return distserve.paper()


def figure(paper: Paper, number: int) -> PaperFigure:
    return next(one for one in paper.figures if one.number == number)


def points(found: PaperFigure, panel: str, kind: str, value: float | None = None) -> dict[float, float]:
    lines = next(one for one in found.panels if one.id == panel).lines
    return dict(next(one.points for one in lines if one.kind == kind and value in (None, one.value)))


def here(found: PaperFigure) -> dict[str, float]:
    return {one.id: one.here for one in found.compared}


def test_separate_phases_serve_more_than_both_together(paper: Paper) -> None:
    """TPOT limits a GPU that serves both phases, and decode serves more than prefill (figure 1)."""
    found = figure(paper, 1)
    rates = here(found)
    assert rates["rate_both"] < rates["rate_apart"] < rates["rate_prefill"] < rates["rate_decode"]
    assert {one.id: one.printed for one in found.compared} == {
        "rate_both": 1.6,
        "rate_prefill": 5.6,
        "rate_decode": 10.0,
        "rate_apart": 3.3,
        "times_apart": 2.1,
    }
    tpot, ttft = points(found, "tpot_p90", "both"), points(found, "ttft_p90", "both")
    assert max(rate for rate, took in ttft.items() if took <= 0.4) > rates["rate_both"]
    assert all(a < b for a, b in pairwise(tpot.values()))
    separate = points(found, "ttft_p90", "prefill_alone")
    assert min(separate.values()) < 0.07 < 0.3 < max(separate.values())


def test_one_prompt_saturates_a_prefill_step_and_decode_scales_with_the_batch(paper: Paper) -> None:
    """Figure 3 of the paper."""
    found = here(figure(paper, 3))
    assert found["fills"] <= 512 and found["more_prompts"] < 1.25 and found["more_sequences"] > 4
    rates = list(points(figure(paper, 3), "decode_rate", "decode").values())
    assert all(a < b for a, b in pairwise(rates))


def test_splitting_is_faster_at_low_rates_and_stages_at_high_rates(paper: Paper) -> None:
    """A smaller K ends the advantage of splitting earlier (figure 4)."""
    found = figure(paper, 4)
    numbers = here(found)
    assert 1.3 < numbers["speedup"] < 2
    assert numbers["crossing_1.3"] < numbers["crossing_1.5"] < numbers["crossing_1.7"] < numbers["crossing"]
    stages = points(found, "ttft_mean", "stages")
    split = points(found, "ttft_mean", "split")
    assert split[0.0] < stages[0.0] and max(split) < max(stages)  # the rates at which the queues diverge


def test_stages_scale_throughput_and_splitting_has_diminishing_returns(paper: Paper) -> None:
    """Figure 5 of the paper."""
    found = figure(paper, 5)
    split = points(found, "step", "split")
    assert list(split) == [1, 2, 4, 8]
    gains = [a / b for a, b in pairwise(split.values())]
    assert 2 > gains[0] > gains[1] > gains[2] > 1
    throughput = points(found, "throughput", "stages")
    assert throughput[8] == pytest.approx(8 * throughput[1])
    assert all(points(found, "throughput", "split")[n] < throughput[n] for n in (2, 4, 8))


def test_substituted_layers_are_named(paper: Paper) -> None:
    assert "internlm-20b × 0.9917 in place of OPT-13B's" in paper.times[0] and "OPT-66B" in paper.times[1]


@pytest.mark.parametrize(("rate", "share"), [(0.1, 0.8), (0.1, 0.95), (0.5, 0.5), (0.5, 0.9), (0.9, 0.99)])
def test_within_gives_the_quantile_of_the_waiting_time(rate: float, share: float) -> None:
    seconds = waiting.within(rate, 1.0, share)
    assert waiting.share_within(rate, 1.0, seconds) >= share - 1e-9
    assert seconds == 0 or waiting.share_within(rate, 1.0, seconds * 0.999) < share
