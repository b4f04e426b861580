"""Captures and memory limits of the server's engine."""

from collections.abc import Iterator
from typing import Any

import pytest

from app.ground.settings import MIB
from app.models.live_engine import LiveEngine, check_limits
from app.session.messages import SubmittedPrompt
from engine.config import ConfigError, EngineConfig, SamplingParams
from engine.model.loader import load_model
from tests.unit.engine.runs import tiny_llama


@pytest.fixture
def live() -> Iterator[LiveEngine]:
    engine = LiveEngine(tiny_llama(), EngineConfig(block_size=4, num_blocks=16), None)
    engine.submit([SubmittedPrompt(text="abcdef")], SamplingParams(max_tokens=8, ignore_eos=True))
    yield engine
    engine.close()


def test_captures_pause_while_no_layer_is_in_focus(live: LiveEngine) -> None:
    assert live.step().has_capture
    live.focus([], None)
    assert not live.step().has_capture
    live.focus(None, None)
    assert live.step().has_capture


def test_stopped_captures_do_not_resume_with_a_focus(live: LiveEngine) -> None:
    live.stop_captures()
    live.focus([0], None)
    assert not live.step().has_capture


@pytest.mark.parametrize(
    ("settings", "other_memory"),
    [
        ({}, ""),
        (
            {"speculative_config": '{"model": "bundled-mqa", "num_speculative_tokens": 5}'},
            " and the draft model's pool of 4112 blocks of 4 slots takes 6 MiB",  # 1024 * 16 / 4 + 2 * 8 blocks
        ),
        ({"forget_policy": "h2o", "forget_compare": True}, " and the full cache for comparison takes 8 MiB"),
        ({"preemption_mode": "swap", "swap_space": 9}, ""),
    ],
)
def test_a_refused_pool_size_lists_other_memory(settings: dict[str, Any], other_memory: str) -> None:
    config = EngineConfig(block_size=16, num_blocks=1024, max_num_seqs=8, max_model_len=512, **settings)
    swap = " and 9 more to swap to" if "swap_space" in settings else ""
    with pytest.raises(ConfigError) as refused:
        check_limits(load_model("bundled").facts, config, 30 * MIB)
    assert (
        str(refused.value) == f"a pool of 1024 blocks of 16 slots{swap} takes 32 MiB{other_memory}; the limit is 30 MiB"
    )
