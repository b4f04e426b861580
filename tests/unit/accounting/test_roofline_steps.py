"""Predicted steps: the arithmetic of a small model by hand, and the crossings that lesson 5 names."""

from typing import Any

import pytest

from engine.accounting.roofline import bytes_moved
from engine.accounting.roofline_steps import Roof, StepTimes
from tests.unit.accounting.model_facts import facts

# the roofs of the record of decode-batch (Intel Xeon 2.5 GHz, 2 threads, float32), and the bundled model's facts
XEON = Roof(flops_per_second=173_091_910_076.37, bytes_per_second=19_192_108_649.88, source="decode-batch.json")
BUNDLED: dict[str, Any] = {
    "num_params": 4_917_504, "intermediate_size": 704, "vocab_size": 8192, "max_position": 1024, "dtype": "float32",
    "tie_word_embeddings": True,
}  # fmt: skip
ROOF = Roof(flops_per_second=1e6, bytes_per_second=1e5, source="round numbers")


def bundled() -> StepTimes:
    return StepTimes(facts(4, 256, 8, 2, **BUNDLED), XEON)


def small(**settings: Any) -> StepTimes:
    """Return a model of 2 layers of 1 head of width 10, vocabulary 10, 1,000 layer parameters, float16."""
    defaults = {"num_params": 1000 + 100, "vocab_size": 10, "tie_word_embeddings": True, "max_position": 4096}
    return StepTimes(facts(2, 10, 1, **{**defaults, **settings}), ROOF)


def test_a_decode_step_equals_a_hand_calculation() -> None:
    """The 3 sequences of 5 keys take 3 · (2 · 1000 + 2 · 100 + 2 · 20 · 2 · 5) operations. They read
    2 B · (1000 + 100 + 3 · 10) of weights and 3 · 5 keys of 80 B, and write 3 keys.
    """
    step = small().decode(3, 5)
    assert step.work.flops == 3 * (2000 + 200 + 400) == 7800
    assert bytes_moved(step.work) == 2 * (1000 + 100 + 30) + 80 * (15 + 3) == 3700
    assert step.seconds.value == max(7800 / 1e6, 3700 / 1e5) == 0.037
    assert (step.bound, step.intensity.value) == ("bandwidth", 7800 / 3700)
    assert step.seconds.with_numbers() == "max(7,800 / 1e+06, 3,700 / 100,000)"


def test_a_prefill_step_equals_a_hand_calculation() -> None:
    """The tokens of each prompt attend to 1 + 2 + 3 + 4 keys. Logits are computed for the last token only."""
    step = small().prefill(2, 4)
    assert step.work.flops == 8 * 2000 + 2 * 200 + 2 * (2 * 20 * 2 * 10)
    assert bytes_moved(step.work) == 2 * (1000 + 100 + 80) + 80 * (8 + 8)


@pytest.mark.parametrize(("context", "batch"), [(60, 20), (256, 29)])
def test_decode_becomes_compute_bound_at_the_batch_of_lesson_5(context: int, batch: int) -> None:
    found = bundled().crossing(context)
    assert found.batch == batch and found.exact is not None and batch - 1 <= found.exact.value < batch
    assert [bundled().decode(b, context).bound for b in (batch - 1, batch)] == ["bandwidth", "compute"]


def test_long_contexts_are_never_compute_bound() -> None:
    """A sequence of 900 keys adds 1,846,272 bytes and 13,521,408 operations: 7.3 per byte, below the ridge of 9.0."""
    found = bundled().crossing(900)
    assert (found.batch, found.exact) == (None, None)
    assert found.limit.value == pytest.approx(13_521_408 / 1_846_272)
    assert found.limit.value < bundled().roof.ridge.value == pytest.approx(9.02, abs=0.005)
    assert bundled().decode(5000, 900).bound == "bandwidth"
    assert bundled().decode(5000, 900).intensity.value == pytest.approx(found.limit.value, rel=0.005)


@pytest.mark.parametrize("context", [1, 20, 200])
def test_step_times_with_experts_are_lower_bounds(context: int) -> None:
    """A token does not choose 27 of 30 experts of 300 parameters each, 8,100 of 9,100 layer parameters. The lower bound
    reads 1,000 parameters for any batch. Evenly distributed choices read more.
    """
    times = small(num_params=9_100 + 100, num_active_params=1_000 + 100, num_experts=30, num_experts_per_tok=3)
    found = times.crossing(context)
    steps = [times.decode(batch, context) for batch in range(1, 400)]
    bounds = [step.bound for step in steps]
    assert found.batch == (bounds.index("compute") + 1 if "compute" in bounds else None)
    assert {step.work.weight_bytes - 20 * step.batch for step in steps} == {2 * (1_000 + 100)}
    fast, wide = times.roof.flops_per_second, times.roof.bytes_per_second
    computes = []
    for step in steps:
        assert step.experts is not None and step.evenly is not None
        assert step.experts.value == pytest.approx(30 * (1 - 0.9**step.batch))
        moved = bytes_moved(step.work) + (step.experts.value - 3) * 2 * 300
        assert step.evenly.value == pytest.approx(max(step.work.flops / fast, moved / wide))
        assert step.seconds.value <= step.evenly.value * (1 + 1e-12)
        computes.append(step.work.flops / fast > moved / wide)
    assert found.evenly == (computes.index(True) + 1 if True in computes else None)


def test_without_experts_there_is_only_one_crossing() -> None:
    step, found = bundled().decode(4, 60), bundled().crossing(60)
    assert (step.experts, step.evenly) == (None, None) and found.evenly == found.batch


def test_no_batch_is_compute_bound_from_a_certain_context_length() -> None:
    keys = bundled().never_from()
    assert keys is not None and 256 < keys < 900
    assert [bundled().crossing(n).batch is None for n in (keys - 1, keys)] == [False, True]
    fast = Roof(flops_per_second=1.0, bytes_per_second=1e30, source="moves everything at once")
    assert StepTimes(facts(4, 256, 8, 2, **BUNDLED), fast).never_from() is None


@pytest.mark.parametrize("batch", [1, 4])
def test_prefill_becomes_compute_bound_at_a_prompt_length(batch: int) -> None:
    found = bundled().prefill_crossing(batch)
    assert found is not None
    assert [bundled().prefill(batch, n).bound for n in (found - 1, found)] == ["bandwidth", "compute"]


def test_larger_prefill_batches_become_compute_bound_at_shorter_prompts() -> None:
    lengths = [bundled().prefill_crossing(batch) for batch in (1, 2, 8)]
    assert lengths == sorted(lengths, reverse=True) and len(set(lengths)) == 3  # type: ignore[type-var]
    fast = Roof(flops_per_second=1e30, bytes_per_second=1.0, source="nothing is ever enough for it")
    assert StepTimes(facts(4, 256, 8, 2, **BUNDLED), fast).prefill_crossing() is None


def test_impossible_inputs_are_refused() -> None:
    for step, error in (
        (lambda: small().decode(0, 5), "at least one sequence"),
        (lambda: small().decode(1, 0), "at least one key"),
        (lambda: small().prefill(0, 5), "at least one prompt"),
        (lambda: small().prefill(1, 0), "at least one token"),
        (lambda: StepTimes(facts(1, 8, 1), Roof(flops_per_second=0, bytes_per_second=1, source="")), "must be above 0"),
    ):
        with pytest.raises(ValueError, match=error):
            step()
