"""FLOPs and bytes of a step, by hand and by counting."""

from itertools import product

import pytest

from engine.accounting.presets import model_presets
from engine.accounting.work import StepWork, attended_keys, expert_params, layer_params_read, read_keys
from engine.trace.records import BatchEntry, Work
from tests.unit.accounting.model_facts import facts

# Llama-like: 2 layers, hidden 8, 2 query heads of 4, 1 KV head, vocabulary 10, untied. Of 500 parameters, 2 * 80 are
# in the embedding and the output projection and 340 in the layers.
SMALL = facts(2, 8, 2, kv_heads=1, vocab_size=10, num_params=500, dtype="float32")


def entry(start: int, count: int, samples: bool = True) -> BatchEntry:
    return BatchEntry(
        seq_id=0, phase="prefill" if count > 1 else "decode", start=start, token_ids=[1] * count,
        context_len=start + count, samples=samples,
    )  # fmt: skip


def test_attended_and_read_keys_equal_a_direct_count() -> None:
    for count, start, window in product([1, 2, 5, 9], [0, 2, 6, 20], [None, 1, 3, 7, 50]):
        visible = [set(range(max(0, p - (window or 10**6) + 1), p + 1)) for p in range(start, start + count)]
        assert attended_keys(start, count, window) == sum(len(keys) for keys in visible)
        assert read_keys(start, count, window) == len(set().union(*visible))


def test_the_work_of_a_decode_step_equals_a_hand_calculation() -> None:
    """Position 9 sees 10 keys: 2*340 + 2*10*8 for the logits + 2 layers * 2 * 2 heads * (4+4) * 10 for attention."""
    work = StepWork(SMALL).of([entry(9, 1)])
    assert work.num_tokens == 1
    assert work.flops == 680 + 160 + 2 * 2 * 2 * 8 * 10
    assert work.weight_bytes == (340 + 80 + 8) * 4  # layers, output projection, one embedding row
    assert work.kv_read_bytes == 2 * 10 * 8 * 4  # layers * keys * (4 + 4) numbers * bytes
    assert work.kv_write_bytes == 2 * 1 * 8 * 4


def test_a_chunk_that_does_not_sample_needs_no_logits() -> None:
    with_logits, without = StepWork(SMALL).of([entry(0, 4)]), StepWork(SMALL).of([entry(0, 4, samples=False)])
    assert with_logits.flops - without.flops == 2 * 10 * 8
    assert with_logits.weight_bytes - without.weight_bytes == 80 * 4


def test_a_batch_reads_its_weights_once() -> None:
    """The reason for batching: 16 sequences do 16 times the work of one over the same weights."""
    one, sixteen = StepWork(SMALL).of([entry(9, 1)]), StepWork(SMALL).of([entry(9, 1)] * 16)
    assert sixteen.flops == 16 * one.flops and sixteen.kv_read_bytes == 16 * one.kv_read_bytes
    assert sixteen.weight_bytes == one.weight_bytes + 15 * 8 * 4


def test_windows_bound_the_keys_read_in_each_layer() -> None:
    windowed = facts(2, 8, 2, kv_heads=1, vocab_size=10, num_params=500, sliding_windows=[4, None])
    assert StepWork(windowed).of([entry(99, 1)]).kv_read_bytes == (4 + 100) * 8 * 2


def test_layers_of_different_shapes_sum_their_work() -> None:
    """Layers with a window are narrow and the others wide, as in Gemma 4. Without weights, all work is attention."""
    shapes, windows = [(2, 8, 8), (1, 32, 16), (2, 8, 8)], [3, None, 3]
    batch = [entry(9, 1), entry(4, 6)]

    def work(of: list[tuple[int, int, int]], windows: list[int | None]) -> Work:
        lists = [list(shape) for shape in of]
        model = facts(len(of), 8, 4, vocab_size=0, layer_shapes=lists, sliding_windows=windows, dtype="float32")
        return StepWork(model).of(batch)

    parts = [work([shape], [window]) for shape, window in zip(shapes, windows, strict=True)]
    total = work(shapes, windows)
    for name in ("flops", "kv_read_bytes", "kv_write_bytes"):
        assert getattr(total, name) == sum(getattr(one, name) for one in parts) > 0


def test_unchosen_experts_cost_no_flops() -> None:
    moe = facts(2, 8, 2, kv_heads=1, vocab_size=10, num_params=1160, num_active_params=460)
    assert StepWork(moe).of([entry(0, 1, samples=False)]).flops == 2 * 300 + 2 * 2 * 2 * 8


def test_shared_weights_and_chosen_experts_are_read_once() -> None:
    """A token skips 7 of 9 experts of 100 parameters each. It uses 200 parameters of its two experts and 100 shared
    ones. Two tokens choose 9 (1 − (7/9)²) = 3.56 experts on average, and at least 2.
    """
    settings = {"vocab_size": 10, "num_params": 1160, "num_active_params": 460}
    moe = facts(2, 8, 2, kv_heads=1, num_experts=9, num_experts_per_tok=2, **settings)
    assert expert_params(moe) == 100
    assert [layer_params_read(moe, tokens) for tokens in (1, 2)] == pytest.approx([300, 100 + 9 * (1 - 49 / 81) * 100])
    assert layer_params_read(moe, 10_000) == pytest.approx(1000)
    assert {layer_params_read(moe, tokens, "same") for tokens in (1, 2, 10_000)} == {300}
    unknown = facts(2, 8, 2, kv_heads=1, **settings)
    assert layer_params_read(unknown, 50) == 300, "with an unknown number of experts, those of one token"
    two = [entry(0, 1)] * 2
    assert abs(StepWork(moe).of(two).weight_bytes - (layer_params_read(moe, 2) + 80 + 16) * 2) <= 1
    narrow = StepWork(moe, routing="same", expert_element_bytes=0.5).of(two).weight_bytes
    assert narrow == (100 + 80 + 16) * 2 + 200 * 0.5, "the experts of one token, in four bits"


def test_mixtral_reads_only_the_experts_that_a_batch_chooses() -> None:
    """Counted by hand from its published configuration: 45.1 G parameters in 8 experts, 1.3 G that all tokens use."""
    mixtral = next(one for one in model_presets() if one.id == "mixtral-8x7b")
    assert 8 * expert_params(mixtral) == 32 * 8 * 3 * 4096 * 14_336
    billions = [round(layer_params_read(mixtral, 4, routing) / 1e9, 1) for routing in ("even", "same")]
    assert billions == [32.2, 12.6]


def test_an_empty_step_costs_nothing() -> None:
    work = StepWork(SMALL).of([])
    assert (work.num_tokens, work.flops, work.weight_bytes, work.kv_read_bytes, work.kv_write_bytes) == (0, 0, 0, 0, 0)


def test_quantized_weights_and_cache_scale_the_bytes_read() -> None:
    full, half = StepWork(SMALL).of([entry(9, 1)]), StepWork(SMALL, 2, 16).of([entry(9, 1)])
    assert half.weight_bytes * 2 == full.weight_bytes and half.kv_read_bytes * 4 == full.kv_read_bytes
