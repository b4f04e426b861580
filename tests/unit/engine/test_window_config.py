"""Settings of the window policy: refusals, counted work, and strategies."""

from typing import Any

import pytest

from engine.accounting.work import StepWork
from engine.config import ConfigError, EngineConfig
from engine.engine import Engine
from engine.setup.resolve import resolve
from engine.trace.operations import Release
from tests.unit.engine.runs import GREEDY, PROMPTS, log_of, tiny_llama


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attention_sinks": 4}, "set attention_window too"),
        ({"attention_window": 0}, "attention_window must be between 1"),
        ({"attention_window": 8, "attention_sinks": -1}, "attention_sinks must be between 0"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(EngineConfig(**settings), 256)


def test_work_counts_only_keys_inside_the_window_and_sinks() -> None:
    """A query at position p attends to min(p + 1, 6 + 3) keys."""
    config = EngineConfig(block_size=4, num_blocks=64, attention_window=6, attention_sinks=3)
    with Engine(tiny_llama(), config) as engine:
        engine.add_request(PROMPTS[0], GREEDY)
        while engine.has_unfinished():
            engine.step()
        log = log_of(engine)
        last = log.record(len(log) - 1)
        assert last.work is not None and last.batch[0].context_len == 17 + 12 - 1
        facts, full = log.header.model, StepWork(log.header.model).of(last.batch)
        per_key = 2 * facts.num_heads * (facts.head_dim + facts.v_head_dim) * facts.num_layers
        assert full.flops - last.work.flops == per_key * (28 - 9)
        assert last.work.kv_read_bytes == 9 * log.header.kv_bytes_per_token


@pytest.mark.parametrize("strategy", ["contiguous", "none"])
def test_contiguous_and_none_apply_the_window_and_release_nothing(strategy: Any) -> None:
    """A contiguous sequence has one block, and `none` stores nothing between steps. Outputs equal those of `paged`."""
    outputs = []
    for name in ("paged", strategy):
        config = EngineConfig(
            strategy=name, block_size=4, num_blocks=40, max_model_len=40, attention_window=6, attention_sinks=3
        )
        with Engine(tiny_llama(), config) as engine:
            requests = [engine.add_request(prompt, GREEDY) for prompt in PROMPTS[:3]]
            while engine.has_unfinished():
                engine.step()
                engine.check_integrity()
            log = log_of(engine)
            ops = [op for i in range(len(log)) for op in log.record(i).ops]
            assert any(isinstance(op, Release) for op in ops) == (name == "paged")
            outputs.append([request.output_token_ids for request in requests])
    assert outputs[0] == outputs[1]


def test_recomputation_applies_the_window_policy() -> None:
    """The rows of a pass without a cache are zero outside the window and the sinks."""
    config = EngineConfig(block_size=4, num_blocks=64, attention_window=6, attention_sinks=3)
    with Engine(tiny_llama(), config) as engine:
        engine.add_request(PROMPTS[0], GREEDY)
        engine.step()
        rows = engine.recompute_attention(0, 1, num_tokens=17).layers[0].rows[0].weights
        for query in range(17):
            for key in range(17):
                visible = key <= query and (key < 3 or query - key < 6)
                assert (rows[:, query, key] > 0).all() == visible, (query, key)
