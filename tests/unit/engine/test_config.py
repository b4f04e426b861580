"""Impossible settings are refused by name, before anything is allocated."""

from typing import Any

import pytest

from engine.config import ConfigError, EngineConfig
from engine.setup.resolve import resolve

HYBRID = [8, None]  # windows of two layers, which form two groups with a pool each
MAX_BLOCKS = 1 << 18  # limit of a log, over all groups


@pytest.mark.parametrize(
    ("settings", "windows", "message"),
    [
        (
            {"num_blocks": MAX_BLOCKS + 1, "block_size": 1},
            [None],
            f"gives {MAX_BLOCKS + 1} blocks, and a log can have at most {MAX_BLOCKS}",
        ),
        # pool of the window: 8 + 1 blocks for each of 20000 sequences, and 512 tokens of a step
        (
            {"num_blocks": MAX_BLOCKS - 1000, "block_size": 1, "max_num_seqs": 20_000},
            HYBRID,
            rf"gives {MAX_BLOCKS - 1000 + 20_000 * 9 + 512} blocks in 2 groups of layers",
        ),
        (
            {"num_blocks": 64, "block_size": 1, "preemption_mode": "swap", "swap_space": MAX_BLOCKS + 1},
            [None],
            f"swap_space must be between 0 and {MAX_BLOCKS} blocks$",
        ),
        (
            {"num_blocks": 64, "block_size": 1, "preemption_mode": "swap", "swap_space": MAX_BLOCKS // 2 + 1},
            HYBRID,
            f"swap_space must be between 0 and {MAX_BLOCKS // 2} blocks in 2 groups of layers",
        ),
    ],
)
def test_a_pool_over_the_limit_of_a_log_is_refused(
    settings: dict[str, Any], windows: list[int | None], message: str
) -> None:
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


def test_the_maximum_number_of_blocks_is_accepted() -> None:
    config = resolve(EngineConfig(num_blocks=MAX_BLOCKS, block_size=1, preemption_mode="swap"), 256, [None]).config
    assert (config.num_blocks, config.swap_space) == (MAX_BLOCKS, MAX_BLOCKS)
