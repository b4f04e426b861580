"""Records of two scenarios give the tokens that saturate a prefill step, and the roofline's error."""

import pytest
from msgspec.structs import replace

from engine.bench.errors import BenchError
from engine.bench.prediction_error import prediction_error
from engine.bench.record import Figure, Point, Record
from engine.bench.saturation import saturation
from engine.bench.scenario import find_scenario
from tests.unit.bench.small import record

EMPTY = record({"none": {"seconds": [1.0]}, "paged": {"seconds": [1.0]}})


def figure(value: float) -> Figure:
    return Figure(median=value, low=value, high=value, samples=[value])


def of(scenario: str, points: list[Point]) -> Record:
    return replace(EMPTY, scenario=find_scenario(scenario), points=points)


def rates(noise: float = 0.0) -> list[Point]:
    """Return rates of steps of 2 ms, 10 µs per token and 20 ns per query-key pair. Every second rate is higher by the
    share `noise`.
    """
    points: list[Point] = []
    for batch in (1, 2, 4, 8, 16, 32):
        for tokens in (8, 32, 128, 512):
            seconds = 2e-3 + 1e-5 * batch * tokens + 2e-8 * batch * tokens**2
            rate = batch * tokens / seconds * (1 + noise * (len(points) % 2))
            minimum = max(4e-4, 1e-5 * batch * tokens)
            figures = {
                "prefill_tokens_per_second": figure(rate),
                "prefill_roofline_share": figure(minimum * rate / (batch * tokens)),
            }
            points.append(Point(at=tokens, variant=f"batch-{batch}", figures=figures))
    return points


def test_the_fit_gives_the_saturating_tokens_of_each_length() -> None:
    """90 % of the maximum rate 1 / (c + q · L) is reached at 9 a / (c + q · L) tokens: 9 · 2 ms / 10.64 µs = 1,692 at
    length 32 and 889 at 512.
    """
    found = saturation(of("prefill-two-axes", rates()))
    assert (found.step_seconds, found.token_seconds, found.pair_seconds) == pytest.approx((2e-3, 1e-5, 2e-8), rel=1e-6)
    assert found.tokens[32] == pytest.approx(0.018 / 1.064e-5)
    assert found.tokens[512] == pytest.approx(0.018 / 2.024e-5)
    assert found.worst_error < 1e-6 and len(found.points) == 24
    for length, tokens in found.measured_tokens.items():  # independent of the fit
        rates_of = {point.batch * point.tokens: point.rate for point in found.points if point.tokens == length}
        assert rates_of[tokens] >= 0.9 * max(rates_of.values())
        assert all(rate < 0.9 * max(rates_of.values()) for fewer, rate in rates_of.items() if fewer < tokens)


def test_the_roofline_saturates_with_fewer_tokens_than_measured() -> None:
    """The roofline takes 0.4 ms for weights and 10 µs per token, so 40 tokens saturate it. The next measured counts are
    64 and 128.
    """
    found = saturation(of("prefill-two-axes", rates()))
    assert found.bound_tokens == {8: 64, 32: 64, 128: 128, 512: 512}
    assert all(found.bound_tokens[length] <= tokens for length, tokens in found.measured_tokens.items())
    assert [point.bound for point in found.points if (point.batch, point.tokens) == (1, 8)] == pytest.approx([8 / 4e-4])


def test_noise_changes_the_fit_little_and_is_reported() -> None:
    found = saturation(of("prefill-two-axes", rates(noise=0.1)))
    assert found.tokens[32] == pytest.approx(0.018 / 1.064e-5, rel=0.1)
    assert 0.02 < found.median_error <= found.worst_error < 0.12


def test_too_few_points_and_other_scenarios_are_refused() -> None:
    with pytest.raises(BenchError, match="has 2 points; the fit needs at least three"):
        saturation(of("prefill-two-axes", rates()[:2]))
    for read in (saturation, lambda record: prediction_error(record, "decode")):
        with pytest.raises(BenchError, match="not of small"):
            read(EMPTY)


def test_steps_are_reported_as_multiples_of_the_bound() -> None:
    """Steps take 2, 3 and 0.8 times the bound."""
    points = [
        Point(
            at=at,
            variant=variant,
            figures={"decode_step_seconds": figure(took), "decode_roofline_seconds": figure(bound)},
        )
        for at, variant, took, bound in (
            (32, "batch-1", 4.0, 2.0),
            (32, "batch-4", 9.0, 3.0),
            (512, "batch-4", 0.8, 1.0),
        )
    ]
    found = prediction_error(of("step-time", [*points, Point(at=8, variant="batch-1", failed="no")]), "decode")
    assert (found.median, found.least, found.most) == (2.0, 0.8, 3.0)
    assert [point.tokens for point in found.points] == [32, 32, 512]
    assert prediction_error(of("step-time", points), "decode", only="batch-1").points == found.points[:1]
    with pytest.raises(BenchError, match="no step of prefill"):
        prediction_error(of("step-time", points), "prefill")
