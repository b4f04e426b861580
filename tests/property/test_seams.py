"""Rounds of `tests.load.seams` with seeds that include every kind of event."""

from collections import Counter
from collections.abc import Iterator

import pytest
import torch

from tests.load.seams import run_round

pytestmark = pytest.mark.slow
SEEDS = (*range(6), 8, 11, 29)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_random_combinations_give_valid_logs_and_correct_tokens() -> None:
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        counts += run_round(seed)
    expected = {"arrive", "load", "chunks", "fork", "failed steps", "aborts", "lost", "compared in full"}
    assert expected <= set(counts), expected - set(counts)
    assert any(name.startswith("preempt") for name in counts)
