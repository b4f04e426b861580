"""The capacity that a sequence needs excludes its last token, as the K and V of that token are never written."""

import pytest

from engine.scheduling.capacity import max_tokens_that_fit, slots_required


@pytest.mark.parametrize(
    ("num_prompt_tokens", "max_tokens", "slots"), [(1, 1, 1), (4, 1, 4), (4, 2, 5), (7, 2, 8), (12, 5, 16), (12, 6, 17)]
)
def test_a_sequence_needs_slots_for_all_tokens_but_the_last(
    num_prompt_tokens: int, max_tokens: int, slots: int
) -> None:
    assert slots_required(num_prompt_tokens, max_tokens) == slots


@pytest.mark.parametrize("num_prompt_tokens", range(1, 12))
def test_max_tokens_that_fit_fills_the_pool_exactly(num_prompt_tokens: int) -> None:
    """The pool has 3 blocks of 4, or 12 slots."""
    max_tokens = max_tokens_that_fit(num_prompt_tokens, 3, 4)
    assert slots_required(num_prompt_tokens, max_tokens) == 12
