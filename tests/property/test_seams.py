"""Some rounds of `tests.load.seams`, with seeds in which every kind of event happens."""

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


def test_random_combinations_give_sound_logs_and_right_tokens() -> None:
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        counts += run_round(seed)
    wanted = {"arrive", "load", "chunks", "fork", "failed steps", "aborts", "lost", "compared in full"}
    assert wanted <= set(counts), wanted - set(counts)
    assert any(name.startswith("preempt") for name in counts)
