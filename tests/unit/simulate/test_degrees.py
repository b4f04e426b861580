"""Decode by the number of GPUs, and the result of both phases together."""

import pytest

from engine.simulate.degrees import decode_over_degrees, goodput_per_gpu, request_rate


def test_splitting_shortens_a_step_less_and_less_and_stages_only_add() -> None:
    """For K(2) = 1.6 the share s = 2/1.6 − 1 = 0.25 is not split: K(4) = 1 / (0.25 + 0.75/4) = 16/7, and never more
    than 4.
    """
    found = decode_over_degrees(0.04, 128, [1, 2, 4, 8, 1000], 1.6)
    assert [one.speedup.value for one in found] == pytest.approx(
        [1, 1.6, 16 / 7, 1 / (0.25 + 0.75 / 8), 3.988], rel=1e-4
    )
    assert [one.intra_latency.value for one in found[:3]] == pytest.approx([0.04, 0.025, 0.0175])
    assert [one.inter_latency for one in found] == [0.04] * 5
    assert [one.inter_throughput.value for one in found[:4]] == pytest.approx([3200, 6400, 12800, 25600])
    assert [one.intra_throughput.value for one in found[:2]] == pytest.approx([3200, 3200 * 1.6])


def test_two_that_split_perfectly_do_so_at_every_number() -> None:
    assert [one.speedup.value for one in decode_over_degrees(0.01, 1, [1, 2, 8], 2.0)] == [1, 2, 8]


@pytest.mark.parametrize(
    ("step", "batch", "degrees", "speedup", "says"),
    [
        (0, 1, [1], 1.5, "longer than 0 s"),
        (0.1, 0, [1], 1.5, "at least one sequence"),
        (0.1, 1, [0], 1.5, "at least one GPU"),
        (0.1, 1, [1], 1.0, "more than 1 and at most 2"),
        (0.1, 1, [1], 2.5, "more than 1 and at most 2"),
    ],
)
def test_impossible_inputs_are_refused(step: float, batch: int, degrees: list[int], speedup: float, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        decode_over_degrees(step, batch, degrees, speedup)


def test_figure_1_of_distserve() -> None:
    """A GPU serves 5.6 requests a second in prefill, or 10 in decode: two and one give 10 / 3 each, not 1.6."""
    assert goodput_per_gpu(2 * 5.6, 2, 10, 1) == pytest.approx(3.33, abs=0.01)
    assert goodput_per_gpu(5.6, 1, 10, 1) == pytest.approx(2.8)


def test_the_first_token_is_prefills() -> None:
    assert request_rate(630, 64) == 10
    with pytest.raises(ValueError, match="at least 2"):
        request_rate(630, 1)
