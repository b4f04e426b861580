"""The server's engine adds captures that can be chosen, left out, or ended for good."""

from collections.abc import Iterator

import pytest

from app.models.live_engine import LiveEngine
from app.session.messages import SubmittedPrompt
from engine.config import EngineConfig, SamplingParams
from tests.unit.engine.runs import tiny_llama


@pytest.fixture
def live() -> Iterator[LiveEngine]:
    engine = LiveEngine(tiny_llama(), EngineConfig(block_size=4, num_blocks=16), None)
    engine.submit([SubmittedPrompt(text="abcdef")], SamplingParams(max_tokens=8, ignore_eos=True))
    yield engine
    engine.close()


def test_no_layer_in_focus_means_no_capture_until_there_is_one_again(live: LiveEngine) -> None:
    assert live.step().has_capture
    live.focus([], None)
    assert not live.step().has_capture
    live.focus(None, None)
    assert live.step().has_capture


def test_captures_that_were_stopped_do_not_come_back_with_a_focus(live: LiveEngine) -> None:
    live.stop_captures()
    live.focus([0], None)
    assert not live.step().has_capture
