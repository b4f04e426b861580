"""Step times of other GPUs, from measured layers and the roofline."""

import pytest
from msgspec.structs import replace

from engine.accounting.layer_times import layer_file
from engine.accounting.memory import stored_bytes_per_token
from engine.accounting.presets import gpu_presets, model_presets
from engine.accounting.work import StepWork
from engine.cache.attention_span import WindowPolicy, reaches_of
from engine.simulate.cost import StepShape, shape_of, windows_of
from engine.simulate.layers import card_of
from engine.trace.records import BatchEntry
from tests.unit.engine.runs import tiny_llama


def test_a_step_takes_its_layers_times_and_the_roofline_time_of_the_rest() -> None:
    """For Llama 2 7B on an A100 80 GB, a token takes 32 layers of 0.292 ms. Reading 131 M float16 weights of the output
    projection at 2,039 GB/s takes 0.129 ms, and 1,024 keys of 524,288 B take 0.263 ms.
    """
    cost = card_of("llama-2-7b", "a100-80gb").cost()
    output = 32_000 * 4096 * 2
    expected = 32 * 0.292e-3 + (output + 1024 * 524_288) / 2039e9 + output / 312e12
    assert cost.seconds(StepShape(1, 1, 1024, 0)) == pytest.approx(expected)
    assert cost.source.startswith("layers of Llama 2 7B on 1 × A100 SXM 80GB (github.com/microsoft/vidur")


def test_gpus_that_split_a_layer_add_two_all_reduces() -> None:
    """A layer of 2,048 tokens on two GPUs takes 2.1282 ms and two all-reduces of 0.139 ms. Attention uses the peak of
    both GPUs.
    """
    cost = card_of("llama-2-7b", "a100-80gb").cost(2)
    output = 32_000 * 4096 * 2
    layers = 32 * (2.1282e-3 + 2 * 0.139e-3)
    pairs = 2048 * 2049 // 2
    rest = (output + 2048 * 524_288) / (2 * 2039e9) + (output + 4 * 32 * 32 * 128 * pairs) / (2 * 312e12)
    assert cost.seconds(StepShape(2048, 1, 2048, pairs)) == pytest.approx(layers + rest)


def test_a_smaller_cache_dtype_is_read_faster_and_holds_more_tokens() -> None:
    """A number takes one byte in fp8, and int8 adds a float16 scale for each vector of 128."""
    card = card_of("llama-2-7b", "a100-80gb")
    for dtype, share in (("fp8", 1 / 2), ("int8", 130 / 256)):
        assert card.cost(1, dtype).key_seconds == pytest.approx(card.cost().key_seconds * share)
        assert card.room_tokens(kv_cache_dtype=dtype) == pytest.approx(card.room_tokens() / share, abs=2)


@pytest.mark.parametrize("policy", [None, WindowPolicy(8), WindowPolicy(8, 4, 2), WindowPolicy(100, 1)])
def test_the_keys_of_a_step_shape_equal_those_of_the_steps_work(policy: WindowPolicy | None) -> None:
    facts = tiny_llama().facts
    facts = replace(facts, sliding_windows=[16] + [None] * (facts.num_layers - 1))
    seen = [reach.num_keys for reach in reaches_of(facts.sliding_windows, policy)]
    spans = [(30, 1), (3, 1), (0, 40), (20, 5)]
    batch = [
        BatchEntry(seq_id=i, phase="prefill", start=a, token_ids=[0] * n, context_len=a + n, samples=True)
        for i, (a, n) in enumerate(spans)
    ]
    work = StepWork(replace(facts, sliding_windows=seen)).of(batch)
    shape = shape_of(spans, windows_of(facts, policy))
    assert shape.num_keys * stored_bytes_per_token(facts) == pytest.approx(work.kv_read_bytes)
    no_window = shape_of(spans)
    assert shape.num_tokens == 47 and shape.num_pairs < no_window.num_pairs == 40 * 41 / 2 + 5 * 20 + 15


def test_measured_layer_times_belong_to_presets_and_increase() -> None:
    for layer in layer_file().layer:
        assert layer.model in {one.id for one in model_presets() if one.is_counted}
        assert layer.gpu in {one.id for one in gpu_presets()}
        assert len(layer.tokens) == len(layer.milliseconds) and layer.tokens == sorted(layer.tokens)
        assert bool(layer.all_reduce) == (layer.tensor_parallel > 1)
        assert min(layer.milliseconds) > 0 and all(took > 0 for took in layer.all_reduce)
        assert layer.milliseconds[-1] > 5 * layer.milliseconds[0]
        cost = card_of(layer.model, layer.gpu).cost(layer.tensor_parallel)
        assert cost.of_tokens(layer.tokens[-1]) > cost.of_tokens(layer.tokens[0]) > 0


def test_an_unmeasured_layer_is_refused_with_the_measured_ones() -> None:
    assert card_of("llama-2-7b", "h100-80gb").degrees == [1, 2, 4, 8] and card_of("gpt2", "t4").degrees == []
    with pytest.raises(ValueError, match="no layer times of llama-2-7b on 3 × a100-80gb; measured were 1, 2, 4, 8"):
        card_of("llama-2-7b", "a100-80gb").cost(3)
    with pytest.raises(ValueError, match=r"no layer times of gpt2 on 1 × t4$"):
        card_of("gpt2", "t4").cost()
