"""Quantized KV caches: their error, which does not depend on the schedule, and their captures."""

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from engine.config import EngineConfig, KVCacheDtype
from engine.engine import Engine
from engine.model.batch import SequenceSlice
from engine.model.capture import CaptureRequest
from engine.model.runner import ModelRunner
from tests.unit.engine.runs import CONFIGS, GREEDY, PROMPTS, log_of, outputs_of, tiny_llama

QUANTIZED: list[KVCacheDtype] = ["fp8", "int8", "int4"]
TOKENS = [(7 * i) % 90 + 3 for i in range(24)]


def logits(dtype: str, chunks: list[int]) -> torch.Tensor:
    """Return the logits of the last token of TOKENS, computed in chunks."""
    runner = ModelRunner(tiny_llama(), num_blocks=8, block_size=4, max_model_len=32, kv_cache_dtype=dtype)
    start = 0
    for count in chunks:
        found = runner.execute([SequenceSlice(0, TOKENS[start : start + count], start, [list(range(8))], samples=True)])
        start += count
    return found.logits[0]


def test_fewer_bits_make_larger_errors() -> None:
    """Errors against a float32 cache grow from bfloat16 and int8 to fp8 and int4 and stay below the logits' spread."""
    exact = logits("auto", [24])
    error = {dtype: float((logits(dtype, [24]) - exact).abs().mean()) for dtype in ("bfloat16", "int8", "fp8", "int4")}
    assert 0 < error["bfloat16"] < error["fp8"] < error["int4"]
    assert 0 < error["int8"] < error["fp8"]
    assert error["int4"] < 0.5 * float(exact.std())


@pytest.mark.parametrize("dtype", QUANTIZED)
def test_chunked_prefill_changes_no_logits(dtype: str) -> None:
    """A token reads rounded keys even of its own step, so the step that wrote them does not matter."""
    assert torch.allclose(logits(dtype, [24]), logits(dtype, [5, 1, 11, 7]), atol=1e-5)


@pytest.mark.parametrize("dtype", QUANTIZED)
def test_greedy_output_does_not_depend_on_blocks_or_preemption(dtype: KVCacheDtype) -> None:
    found = [
        outputs_of(replace(config, kv_cache_dtype=dtype))
        for config in (CONFIGS["roomy"], CONFIGS["preempting"], CONFIGS["chunked"], CONFIGS["one slot a block"])
    ]
    assert found[1:] == found[:1] * 3


@pytest.mark.parametrize("dtype", QUANTIZED)
def test_captured_arrays_equal_the_stored_ones(dtype: KVCacheDtype) -> None:
    capture = CaptureRequest(dtype="float32")
    config = EngineConfig(block_size=4, num_blocks=16)
    keys = {}
    for kind in ("auto", dtype):
        with Engine(tiny_llama(), replace(config, kv_cache_dtype=kind), capture=capture) as engine:
            engine.add_request(PROMPTS[0], GREEDY)
            engine.step()
            captured = log_of(engine).capture(1)
            assert captured is not None
            keys[kind] = captured.layers[0].k
            stored, _ = engine._runner.kv_store.gather(0, torch.arange(len(PROMPTS[0])))
            np.testing.assert_array_equal(keys[kind], stored.numpy())
    assert not np.array_equal(keys["auto"], keys[dtype])  # keys of the first layer differ only by rounding
    np.testing.assert_allclose(keys["auto"], keys[dtype], atol=float(np.abs(keys["auto"]).max()) / 12)
