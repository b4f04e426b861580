"""The keys and values that the page draws are those of one pass over the sequence, live and in a replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.engine import Engine
from engine.model.capture import CaptureRequest
from engine.model.loaded import LoadedModel
from engine.model.loader import from_module
from engine.model.recompute import recompute_sequence
from engine.trace.check import check
from engine.trace.operations import Lookup, Op, Preempt, SwapIn
from tests.causal_types import causal_config, causal_model
from tests.js.node_run import node_output
from tests.unit.engine.answered import SAMPLING, config, prompts

WIDTHS: dict[str, Any] = {"num_global_key_value_heads": 1, "attention_k_eq_v": True}


def drawn(model: LoadedModel, path: Path, **settings: Any) -> tuple[dict[str, Any], list[Op]]:
    """Serve the prompts twice with everything captured; return the page's drawing of it, and the operations."""
    capture = CaptureRequest(budget_bytes=1 << 30, dtype="float32")
    ops: list[Op] = []
    with Engine(model, config(**settings), log_path=path, capture=capture) as engine:
        for _ in range(2):
            for prompt in prompts():
                engine.add_request(prompt, SAMPLING)
            while engine.has_unfinished():
                ops += engine.step().ops
        assert engine.log is not None
        sequences = engine.log.state_now().sequences
        dtype = engine.config.kv_cache_dtype
    assert not list(check(path))
    expected = {
        seq_id: [
            {"k": layer.k.tolist(), "v": layer.v.tolist()}
            for layer in recompute_sequence(model, seq_id, sequence.token_ids, None, [0], dtype).layers
        ]
        for seq_id, sequence in sequences.items()
    }
    wanted = path.with_suffix(".json")
    wanted.write_text(json.dumps(expected), encoding="utf-8")
    found: dict[str, Any] = json.loads(node_output("drawn_dump.mjs", path, wanted, seconds=300))
    return found, ops


@pytest.mark.parametrize(
    ("family", "settings", "happens"),
    [
        ("deepseek_v3", {}, Lookup),
        ("deepseek_v2", {"num_blocks": 22}, Preempt),
        ("minicpm3", {"num_blocks": 22, "preemption_mode": "swap"}, SwapIn),
        ("glm4_moe_lite", {"kv_cache_dtype": "int8"}, Lookup),
        ("gemma4_text", {"num_blocks": 22}, Preempt),
    ],
)
def test_drawn_arrays_equal_those_of_one_pass(
    family: str, settings: dict[str, Any], happens: type[Op], tmp_path: Path
) -> None:
    """Latents expand to keys and values of every head; layers of Gemma 4 have heads of their own."""
    more = WIDTHS if family == "gemma4_text" else {}
    found, ops = drawn(from_module(causal_model(causal_config(family, **more))), tmp_path / "run.kvtrace", **settings)
    assert any(isinstance(op, happens) for op in ops)
    assert found["vectors"] > 10_000 and found["different"] == 0
    assert found["distance"] < 1e-3
