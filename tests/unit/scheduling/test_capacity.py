"""How much room a sequence needs: the last token's K and V are never written."""

import pytest

from engine.scheduling.capacity import blocks_required, max_tokens_that_fit, slots_required


@pytest.mark.parametrize(
    ("num_prompt_tokens", "max_tokens", "slots", "blocks"),
    [(1, 1, 1, 1), (4, 1, 4, 1), (4, 2, 5, 2), (7, 2, 8, 2), (12, 5, 16, 4), (12, 6, 17, 5)],
)
def test_slots_and_blocks_at_block_size_4(num_prompt_tokens: int, max_tokens: int, slots: int, blocks: int) -> None:
    """slots = prompt + max_tokens - 1, blocks = slots / 4 rounded up."""
    assert slots_required(num_prompt_tokens, max_tokens) == slots
    assert blocks_required(num_prompt_tokens, max_tokens, 4) == blocks


@pytest.mark.parametrize("num_prompt_tokens", range(1, 12))
def test_the_largest_max_tokens_fits_and_one_more_does_not(num_prompt_tokens: int) -> None:
    """3 blocks of 4 = 12 slots."""
    most = max_tokens_that_fit(num_prompt_tokens, 3, 4)
    assert blocks_required(num_prompt_tokens, most, 4) == 3
    assert blocks_required(num_prompt_tokens, most + 1, 4) == 4
