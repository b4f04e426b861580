"""Layers with different numbers or widths of heads, as in Gemma 4."""

from pathlib import Path

import pytest

from engine.accounting.memory import stored_bytes_per_token
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.attention_gather import GatherAttention
from engine.model.capture import CaptureRequest
from engine.model.forgetting.attention import ForgettingAttention
from engine.model.loader import from_module
from engine.trace.check import check
from engine.trace.log import TraceReader
from engine.trace.operations import Forget
from tests.causal_types import causal_config, causal_model


def test_layers_of_different_widths_are_counted_and_checked(tmp_path: Path) -> None:
    model, path = from_module(causal_model(causal_config("gemma4_text"))), tmp_path / "run.kvtrace"
    config = EngineConfig(block_size=4, num_blocks=30, max_model_len=64, enforce_eager=True)
    with Engine(model, config, log_path=path, capture=CaptureRequest()) as engine:
        engine.add_request(list(range(5, 25)), SamplingParams(max_tokens=4, ignore_eos=True))
        while engine.has_unfinished():
            engine.step()
    assert [str(finding) for finding in check(path)] == []
    with TraceReader(path) as log:
        facts, widths = log.header.model, [shape.head_dim for shape in model.layer_shapes]
        assert len(set(widths)) == 2 and [facts.kv_shape(layer)[1] for layer in range(3)] == widths
        work, each = log.record(1).work, stored_bytes_per_token(facts)
        assert log.header.kv_bytes_per_token == each
        assert work is not None
        assert work.kv_write_bytes == 20 * each


@pytest.mark.parametrize("masks", [True, False])
def test_forgetting_counts_the_heads_of_each_layer(
    tmp_path: Path, masks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the full layer, with one KV head, forgets. Weights on forgotten keys are found if they are not masked."""
    settings = {"num_global_key_value_heads": 1, "attention_k_eq_v": True}
    model, path = from_module(causal_model(causal_config("gemma4_text", **settings))), tmp_path / "run.kvtrace"
    if not masks:
        monkeypatch.setattr(ForgettingAttention, "decode", GatherAttention.decode)
    config = EngineConfig(
        block_size=4, num_blocks=30, max_model_len=64, enforce_eager=True, forget_policy="h2o", forget_budget=10
    )
    with Engine(model, config, log_path=path, capture=CaptureRequest()) as engine:
        engine.add_request(list(range(5, 25)), SamplingParams(max_tokens=4, ignore_eos=True))
        while engine.has_unfinished():
            engine.step()
    with TraceReader(path) as log:
        ops = [op for index in range(len(log)) for op in log.record(index).ops if isinstance(op, Forget)]
    assert {(op.layer, len(op.positions)) for op in ops} == {(2, 1)}
    found = [str(finding) for finding in check(path)]
    assert all("gives weight to a key that it has forgotten" in one for one in found)
    assert bool(found) is not masks
