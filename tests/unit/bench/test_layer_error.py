"""Errors of the roofline on GPUs with measured layers."""

import pytest

from engine.accounting.layer_times import LayerTimes
from engine.accounting.presets import presets
from engine.accounting.work import layer_params
from engine.bench.layer_error import layer_error, measured_layers, ridge_factors

KNOWN = presets()
A100, H100, T4 = (KNOWN.gpus[id] for id in ("a100-80gb", "h100-80gb", "t4"))


def test_layer_times_are_paired_with_the_rooflines_bound() -> None:
    """Llama 2 7B has 202 M parameters per layer. Reading them takes 0.1985 ms at 2,039 GB/s, and 4,096 tokens take 5.31
    ms at 312 TFLOP/s. The measured times are 0.292 and 8.1775 ms.
    """
    layer = next(one for one in measured_layers(A100, KNOWN) if one.name == "Llama 2 7B, 1/1, A100 SXM 80GB")
    params = layer_params(KNOWN.models["llama-2-7b"]) / 32
    assert layer.seconds[1] == pytest.approx((0.292e-3, 2 * params / 2039e9))
    assert layer.seconds[4096] == pytest.approx((8.1775e-3, 2 * 4096 * params / 312e12))
    assert layer.times(1, 1) == [pytest.approx(1.471, abs=0.001)]


@pytest.mark.parametrize("card", [A100, H100], ids=["a100", "h100"])
def test_the_roofline_bounds_every_measured_card(card) -> None:
    layers = measured_layers(card, KNOWN)
    assert len(layers) >= 12
    errors = [layer_error(layers, phase) for phase in ("decode", "prefill")]
    assert all(error is not None and 1 < error.least < error.median < error.most < 5 for error in errors)
    factors = ridge_factors(layers)
    assert factors is not None and 0.7 < factors[0] < 1 < factors[1] < 1.5


def test_the_ridge_factor_is_the_ratio_of_the_errors_of_both_roofs() -> None:
    """A layer that takes twice its memory bound and four times its compute bound has half the ridge."""
    preset = KNOWN.models["llama-2-7b"]
    params = layer_params(preset) / 32
    reads, computes = 2 * params / T4.bytes_per_second, 2 * 4096 * params / T4.fp16_flops_per_second
    times = LayerTimes(
        gpu="t4", model=preset.id, tensor_parallel=1, tokens=[1, 4096], milliseconds=[2000 * reads, 4000 * computes]
    )
    layers = measured_layers(T4, KNOWN._replace(layers=(times,)))
    assert ridge_factors(layers) == pytest.approx((0.5, 0.5))
    decode, prefill = (layer_error(layers, phase) for phase in ("decode", "prefill"))
    assert decode is not None and prefill is not None
    assert (decode.median, prefill.median) == pytest.approx((2, 4))
    assert measured_layers(T4, KNOWN) == [] and layer_error([], "decode") is None and ridge_factors([]) is None
