"""Captured arrays against transformers' attentions and cache; capture changes no result."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from engine.model.attention import StepContext
from engine.model.batch import SequenceSlice
from engine.model.capture import CaptureRequest
from engine.model.host_copy import CudaCopies
from engine.model.loader import from_module
from engine.model.runner import ForwardResult, ModelRunner
from engine.trace import codec
from engine.trace.encoded import EncodedLayers
from tests.fake_cuda import FakeCuda
from tests.parity.harness import Driver, eager_forward, mixed_schedule, random_prompt
from tests.tiny_models import FAMILIES, VOCAB_SIZE, tiny_model

SEQUENCES = {seq: random_prompt(length, VOCAB_SIZE, seq) for seq, length in {5: 14, 9: 18, 2: 11}.items()}


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_capture_changes_no_logit(family: str) -> None:
    model = from_module(tiny_model(family))
    plain, watched = Driver(model, 4, 16), Driver(model, 4, 16)
    mixed_schedule(plain, SEQUENCES)
    mixed_schedule(watched, SEQUENCES, CaptureRequest())
    assert plain.logits.keys() == watched.logits.keys()
    assert all(torch.equal(plain.logits[key], watched.logits[key]) for key in plain.logits)


@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2", "gemma3", "gpt2", "gpt_oss", "deepseek_v3"])
def test_rows_and_keys_equal_eager(family: str) -> None:
    """Every captured row is the eager row over [key_start, key_start + C); every captured key the cached key."""
    module = tiny_model(family)
    eager = {seq: eager_forward(module, tokens) for seq, tokens in SEQUENCES.items()}
    # A whole-sequence cache without windows that drop old keys.
    driver = Driver(from_module(module), 4, 16)
    results = mixed_schedule(driver, SEQUENCES, CaptureRequest(dtype="float32"))
    compared = 0
    for result in results:
        assert result.omitted == ""
        for layer in result.layers:
            for rows in layer.rows:
                attention = eager[rows.seq_id].attentions[layer.layer][0].numpy()  # [Hq, tokens, tokens]
                _, count, width = rows.weights.shape
                queries = slice(rows.query_start, rows.query_start + count)
                expected = attention[rows.heads, queries, rows.key_start : rows.key_start + width]
                # Two computations in float32, whose products add up in different orders.
                np.testing.assert_allclose(rows.weights, expected, atol=4e-6)
                # Nothing that eager could see lies before key_start.
                assert np.abs(attention[rows.heads, queries, : rows.key_start]).max(initial=0) == 0
                compared += count
    assert compared == sum(len(tokens) for tokens in SEQUENCES.values()) * driver.runner.kv_store.num_layers


@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen3", "opt"])
def test_captured_keys_and_values_are_those_of_the_cache(family: str) -> None:
    module = tiny_model(family)
    tokens = SEQUENCES[9]
    cache = eager_forward(module, tokens).past_key_values
    driver = Driver(from_module(module), 4, 16)
    result = driver.step([driver.slice(9, tokens, len(tokens))], CaptureRequest(dtype="float32"))
    for layer in result.layers:
        expected = cache.layers[layer.layer]
        np.testing.assert_allclose(layer.k, expected.keys[0].transpose(0, 1).numpy(), atol=1e-5)
        np.testing.assert_allclose(layer.v, expected.values[0].transpose(0, 1).numpy(), atol=1e-5)
        slots = [driver.blocks.tables[9][p // 4] * 4 + p % 4 for p in range(len(tokens))]
        k, _ = driver.runner.kv_store.gather(layer.layer, torch.tensor(slots))
        assert np.array_equal(layer.k, k.numpy())


def off_from_sums(results: list[ForwardResult], slices: list[list[SequenceSlice]]) -> tuple[float, int]:
    """Return the largest difference of a captured output to the sum of captured weight · captured v, and their
    number.
    """
    values: dict[tuple[int, int], dict[int, np.ndarray[Any, Any]]] = {}  # (layer, sequence) -> position -> [Hkv, Dv]
    worst, compared = 0.0, 0
    for result, step in zip(results, slices, strict=True):
        places = [(piece.seq_id, piece.start + i) for piece in step for i in range(len(piece.token_ids))]
        for layer in result.layers:
            assert layer.out is not None and layer.out.shape == (len(places), layer.q.shape[1], layer.v.shape[2])
            for (seq, position), v in zip(places, layer.v, strict=True):
                values.setdefault((layer.layer, seq), {})[position] = v
            for rows in layer.rows:
                known = values[layer.layer, rows.seq_id]
                _, count, width = rows.weights.shape
                for i in range(count):
                    query = rows.query_start + i
                    keys = range(rows.key_start, min(rows.key_start + width, query + 1))
                    v = np.stack([known[position] for position in keys]).astype(np.float64)  # [C, Hkv, Dv]
                    out = layer.out[places.index((rows.seq_id, query))]
                    for weights, head in zip(rows.weights[:, i, : len(keys)], rows.heads, strict=True):
                        kv_head = head // (layer.q.shape[1] // v.shape[1])
                        summed = weights.astype(np.float64) @ v[:, kv_head]
                        worst = max(worst, float(np.abs(summed - out[head]).max()))
                        compared += 1
    return worst, compared


OUTPUTS = CaptureRequest(dtype="float32", outputs=True)


def whole_and_decodes(driver: Driver) -> tuple[list[ForwardResult], list[list[SequenceSlice]]]:
    """Compute two sequences in two chunks each, then steps that mix a decode with the rest of another."""
    steps = [
        [driver.slice(5, SEQUENCES[5], 9), driver.slice(9, SEQUENCES[9], 4, samples=False)],
        [driver.slice(5, SEQUENCES[5], 1), driver.slice(9, SEQUENCES[9], 13)],
        [driver.slice(9, SEQUENCES[9], 1), driver.slice(5, SEQUENCES[5], 1)],
    ]
    return [driver.step(step, OUTPUTS) for step in steps], steps


@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2", "gemma3", "gpt2", "qwen3", "gpt_oss", "deepseek_v3"])
def test_captured_outputs_are_the_sums_of_weight_times_v(family: str) -> None:
    """Models have grouped queries, windows, a softcap, sinks (without a value), or keys and values of different
    widths.
    """
    driver = Driver(from_module(tiny_model(family)), 4, 16)
    worst, compared = off_from_sums(*whole_and_decodes(driver))
    assert compared == 29 * driver.runner.kv_store.num_layers * driver.runner.model.facts.num_heads
    assert worst < 2e-6


def test_outputs_of_a_rounded_cache_are_sums_of_what_it_holds() -> None:
    driver = Driver(from_module(tiny_model("llama")), 4, 16, kv_cache_dtype="int8")
    worst, compared = off_from_sums(*whole_and_decodes(driver))
    assert compared and worst < 2e-6


def test_outputs_come_last_in_the_budget_and_what_is_left_out_is_said() -> None:
    model = from_module(tiny_model("llama"))
    layers = model.facts.num_layers
    pieces = [SequenceSlice(9, SEQUENCES[9], 0, [[0, 1, 2, 3, 4]], samples=True)]
    whole = ModelRunner(model, 16, 4, 64).execute(pieces, OUTPUTS)
    out = whole.layers[0].out
    assert out is not None and whole.omitted == "" and len(whole.layers) == layers

    def within(budget: int) -> ForwardResult:
        request = CaptureRequest(dtype="float32", outputs=True, budget_bytes=budget)
        return ModelRunner(model, 16, 4, 64).execute(pieces, request)

    arrays = [array for layer in whole.layers for array in (layer.q, layer.k, layer.v, layer.rows[0].weights)]
    base = sum(array.nbytes for array in arrays)
    one = within(base + out.nbytes)
    assert [layer.out is not None for layer in one.layers] == [True] + [False] * (layers - 1)
    assert f"the attention outputs of layers 1-{layers - 1}" in one.omitted
    assert all(layer.out is None for layer in within(base).layers)
    assert all(layer.out is None for layer in ModelRunner(model, 16, 4, 64).execute(pieces, CaptureRequest()).layers)


def test_rows_with_sinks_sum_to_less_than_one() -> None:
    driver = Driver(from_module(tiny_model("gpt_oss")), 4, 16)
    result = driver.step([driver.slice(9, SEQUENCES[9], 18)], CaptureRequest(dtype="float32"))
    sums = result.layers[1].rows[0].weights.sum(axis=2)
    assert (sums < 1).all() and (sums > 0).all()


def test_a_decode_row_starts_at_its_window() -> None:
    """A query at position 17 sees keys 13 to 17 under a window of 5."""
    driver = Driver(from_module(tiny_model("mistral")), 4, 16)
    driver.step([driver.slice(9, SEQUENCES[9], 17)])
    result = driver.step([driver.slice(9, SEQUENCES[9], 1)], CaptureRequest())
    rows = result.layers[0].rows[0]
    assert (rows.query_start, rows.key_start, rows.weights.shape) == (17, 13, (4, 1, 5))
    assert rows.weights.dtype == np.float16
    assert abs(float(rows.weights.astype(np.float64).sum()) - 4) < 5e-3


class TestBudget:
    """Llama, 3 layers, Hq 4, Hkv 2, D 8; 10 tokens in float16 (2 bytes a number).

    q, k, v: 10 * (4 + 2 + 2) * 8 * 2 = 1280 bytes a layer; the last row 4 * 10 * 2 = 80; the other rows
    4 * 9 * 10 * 2 = 720 with all heads, 180 with one.
    """

    @staticmethod
    def run(**request: Any) -> ForwardResult:
        driver = Driver(from_module(tiny_model("llama")), 4, 16)
        return driver.step([driver.slice(9, SEQUENCES[9], 10)], CaptureRequest(**request))

    @staticmethod
    def shapes(result: ForwardResult) -> dict[int, list[tuple[list[int], int]]]:
        return {layer.layer: [(rows.heads, rows.weights.shape[1]) for rows in layer.rows] for layer in result.layers}

    def test_all_fits(self) -> None:
        result = self.run(budget_bytes=3 * (1280 + 80 + 720))
        assert self.shapes(result) == {layer: [([0, 1, 2, 3], 10)] for layer in range(3)}
        assert result.omitted == ""

    def test_full_rows_while_they_fit(self) -> None:
        result = self.run(budget_bytes=3 * (1280 + 80) + 720)
        assert self.shapes(result) == {0: [([0, 1, 2, 3], 10)], 1: [([0, 1, 2, 3], 1)], 2: [([0, 1, 2, 3], 1)]}
        assert "all but the last attention row of each sequence in layers 1-2" in result.omitted

    def test_focus_comes_first(self) -> None:
        result = self.run(layers=[2], heads=[1], budget_bytes=3 * (1280 + 80) + 180)
        last = [([0, 1, 2, 3], 1)]
        assert self.shapes(result) == {0: last, 1: last, 2: [([1], 10), ([0, 2, 3], 1)]}
        assert "all but the last attention row of each sequence in layers 0-1" in result.omitted

    def test_focus_drops_nothing_that_fits(self) -> None:
        result = self.run(layers=[2], budget_bytes=3 * (1280 + 80 + 720))
        assert self.shapes(result) == {layer: [([0, 1, 2, 3], 10)] for layer in range(3)}
        assert result.omitted == ""

    def test_the_focused_layer_outlives_the_others(self) -> None:
        result = self.run(layers=[1], budget_bytes=1280 + 80)
        assert self.shapes(result) == {1: [([0, 1, 2, 3], 1)]}
        assert "everything of layers 0, 2" in result.omitted and "in layers 1" in result.omitted

    def test_nothing_is_captured_without_budget(self) -> None:
        result = self.run(budget_bytes=10)
        assert len(result.layers) == 0 and "everything of layers 0-2" in result.omitted


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt_oss", "deepseek_v3"])
@pytest.mark.parametrize(
    ("outputs", "heads", "budget"),
    [(False, None, 1 << 20), (True, None, 1 << 20), (True, [1, 3], 1 << 20), (True, [2], 4000), (False, [], 1 << 20)],
)
def test_arrays_are_the_same_written_in_c(
    family: str, dtype: Any, outputs: bool, heads: list[int] | None, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrays written by C into the log's bytes equal those copied by tensor operations, with the same omissions."""
    monkeypatch.setattr("engine.model.capture_layout.HUGE_PAGE", 4096)  # steps on both sides of it
    model = from_module(tiny_model(family))
    request = CaptureRequest(dtype=dtype, outputs=outputs, heads=heads, budget_bytes=budget)
    fast = mixed_schedule(Driver(model, 4, 16), SEQUENCES, request)
    monkeypatch.setattr("engine.model.capture.capture_kernel", lambda: None)
    plain = mixed_schedule(Driver(model, 4, 16), SEQUENCES, request)
    assert all(isinstance(result.layers, EncodedLayers) for result in fast)
    assert not any(isinstance(result.layers, EncodedLayers) for result in plain)
    for one, other in zip(fast, plain, strict=True):
        assert codec.encode(one.layers) == codec.encode(other.layers) and one.omitted == other.omitted


def test_requested_arrays_are_copied_from_the_device_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers that were not requested are not copied; the host waits when the arrays are read, not before."""
    model = from_module(tiny_model("llama"))
    request = CaptureRequest(layers=[1], only=True, heads=[2], outputs=True)
    expected = mixed_schedule(Driver(model, 4, 16), SEQUENCES, request)
    cuda, crossed = FakeCuda(), list[int]()
    copies = CudaCopies(torch.device("cpu"), cuda, pin_memory=False)
    to_host = copies.to_host

    def counted(tensors: Sequence[torch.Tensor]) -> Any:
        crossed.append(sum(tensor.numel() for tensor in tensors))
        return to_host(tensors)

    monkeypatch.setattr(copies, "to_host", counted)
    for module in ("batch", "runner"):
        monkeypatch.setattr(f"engine.model.{module}.host_copies", lambda device: copies)
    monkeypatch.setattr("engine.model.capture.capture_kernel", lambda: None)
    found = mixed_schedule(Driver(model, 4, 16), SEQUENCES, request)
    assert cuda.waited == 0 and len(crossed) == len(found)
    for one, other, numbers in zip(found, expected, crossed, strict=True):
        assert codec.encode(one.layers) == codec.encode(other.layers) and one.omitted == other.omitted
        [layer] = one.layers
        assert layer.out is not None
        arrays = [layer.q, layer.k, layer.v, layer.out, *(row.weights for row in layer.rows)]
        exact = sum(array.size for array in arrays)
        padding = numbers - exact
        assert padding >= 0
        assert padding == 0 or len(layer.rows) > 1, "only shorter sequences that decode together are padded"


def test_half_precision_rounds_as_torch_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values include ties, subnormals, overflows, infinities and NaN."""
    model = from_module(tiny_model("llama"))
    wanted = [0.0, -0.0, 2049.0, 2051.0, 1e-7, 3e-8, 6e-8, 65519.0, 65520.0, 1e30, float("inf"), float("nan"), -1e-5]

    def write(context: StepContext, call: Any, q: torch.Tensor, *rest: Any) -> Any:
        q.view(-1)[: len(wanted)] = torch.tensor(wanted)
        return attend(context, call, q, *rest)

    attend = StepContext.attend
    monkeypatch.setattr(StepContext, "attend", write)
    driver = Driver(model, 4, 16)
    token = SEQUENCES[9][:1]
    result = driver.step([driver.slice(9, token, 1)], CaptureRequest())
    expected = torch.tensor(wanted).half().numpy()
    for layer in result.layers:
        found = layer.q.reshape(-1)[: len(wanted)]
        assert np.array_equal(found, expected, equal_nan=True) and np.signbit(found[1])
