"""Settings that cannot work are refused by their name, before anything is allocated."""

from typing import Any

import pytest

from engine.config import ConfigError, EngineConfig
from engine.setup.resolve import resolve

HYBRID = [8, None]  # windows of two layers: two groups, with a pool each
MOST = 1 << 18  # blocks that a log's state has at most, of all groups together


@pytest.mark.parametrize(
    ("settings", "windows", "message"),
    [
        (
            {"num_blocks": MOST + 1, "block_size": 1},
            [None],
            f"gives {MOST + 1} blocks, and a log can have at most {MOST}",
        ),
        # the window's pool: 20000 sequences of 8 tokens and one block more each, 512 tokens of a step
        (
            {"num_blocks": MOST - 1000, "block_size": 1, "max_num_seqs": 20_000},
            HYBRID,
            rf"gives {MOST - 1000 + 20_000 * 9 + 512} blocks in 2 groups of layers",
        ),
        (
            {"num_blocks": 64, "block_size": 1, "preemption_mode": "swap", "swap_space": MOST + 1},
            [None],
            f"swap_space must be between 0 and {MOST} blocks$",
        ),
        (
            {"num_blocks": 64, "block_size": 1, "preemption_mode": "swap", "swap_space": MOST // 2 + 1},
            HYBRID,
            f"swap_space must be between 0 and {MOST // 2} blocks in 2 groups of layers",
        ),
    ],
)
def test_the_pool_respects_the_logs_limit(settings: dict[str, Any], windows: list[int | None], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(EngineConfig(**settings), 256, windows)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_blocks": 1, "block_size": 1}, "a pool of 1 blocks x 1 slots does not fit one prompt token and one"),
        ({"max_model_len": 1, "block_size": 1}, r"max_model_len must be between 2 \(one prompt token and one"),
    ],
)
def test_settings_that_fit_no_request_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(EngineConfig(**settings), 256)
    assert resolve(EngineConfig(num_blocks=2, block_size=1), 256).config.max_model_len == 2


def test_the_most_blocks_of_a_log_are_accepted() -> None:
    config = resolve(EngineConfig(num_blocks=MOST, block_size=1, preemption_mode="swap"), 256, [None]).config
    assert (config.num_blocks, config.swap_space) == (MOST, MOST)
