"""Decode over the number of GPUs, and goodput of both phases together."""

import pytest

from engine.simulate.degrees import decode_over_degrees, goodput_per_gpu, request_rate


def test_splitting_has_diminishing_returns_and_stages_add_throughput() -> None:
    """For K(2) = 1.6 the share s = 2/1.6 − 1 = 0.25 is not split, so K(4) = 1 / (0.25 + 0.75/4) = 16/7, and K < 4."""
    found = decode_over_degrees(0.04, 128, [1, 2, 4, 8, 1000], 1.6)
    assert [one.speedup.value for one in found] == pytest.approx(
        [1, 1.6, 16 / 7, 1 / (0.25 + 0.75 / 8), 3.988], rel=1e-4
    )
    assert [one.intra_latency.value for one in found[:3]] == pytest.approx([0.04, 0.025, 0.0175])
    assert [one.inter_latency for one in found] == [0.04] * 5
    assert [one.inter_throughput.value for one in found[:4]] == pytest.approx([3200, 6400, 12800, 25600])
    assert [one.intra_throughput.value for one in found[:2]] == pytest.approx([3200, 3200 * 1.6])


def test_a_perfect_speedup_of_two_gpus_holds_for_every_number() -> None:
    assert [one.speedup.value for one in decode_over_degrees(0.01, 1, [1, 2, 8], 2.0)] == [1, 2, 8]


@pytest.mark.parametrize(
    ("step", "batch", "degrees", "speedup", "error"),
    [
        (0, 1, [1], 1.5, "longer than 0 s"),
        (0.1, 0, [1], 1.5, "at least one sequence"),
        (0.1, 1, [0], 1.5, "at least one GPU"),
        (0.1, 1, [1], 1.0, "more than 1 and at most 2"),
        (0.1, 1, [1], 2.5, "more than 1 and at most 2"),
    ],
)
def test_impossible_inputs_are_refused(step: float, batch: int, degrees: list[int], speedup: float, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        decode_over_degrees(step, batch, degrees, speedup)


def test_goodput_per_gpu_equals_figure_1_of_distserve() -> None:
    """A GPU serves 5.6 requests a second in prefill or 10 in decode. Two and one of them serve 10 / 3 per GPU."""
    assert goodput_per_gpu(2 * 5.6, 2, 10, 1) == pytest.approx(3.33, abs=0.01)
    assert goodput_per_gpu(5.6, 1, 10, 1) == pytest.approx(2.8)


def test_the_first_token_belongs_to_prefill() -> None:
    assert request_rate(630, 64) == 10
    with pytest.raises(ValueError, match="at least 2"):
        request_rate(630, 1)
