"""Capacity that a sequence needs: the last token's K and V are never written."""

import pytest

from engine.scheduling.capacity import max_tokens_that_fit, slots_required


@pytest.mark.parametrize(
    ("num_prompt_tokens", "max_tokens", "slots"), [(1, 1, 1), (4, 1, 4), (4, 2, 5), (7, 2, 8), (12, 5, 16), (12, 6, 17)]
)
def test_slots(num_prompt_tokens: int, max_tokens: int, slots: int) -> None:
    """prompt + max_tokens - 1."""
    assert slots_required(num_prompt_tokens, max_tokens) == slots


@pytest.mark.parametrize("num_prompt_tokens", range(1, 12))
def test_the_largest_max_tokens_fits_and_one_more_does_not(num_prompt_tokens: int) -> None:
    """3 blocks of 4 = 12 slots."""
    most = max_tokens_that_fit(num_prompt_tokens, 3, 4)
    assert slots_required(num_prompt_tokens, most) == 12
