"""The measurement of window policies, on a small random model."""

from __future__ import annotations

import math

import pytest
import torch

from engine.cache.reach import WindowPolicy
from engine.model.loader import from_module
from tests.parity.harness import masked_forward, random_prompt
from tests.tiny_models import VOCAB_SIZE, tiny_model
from training.window_policy import measure, policies


def test_a_size_is_the_number_of_keys_with_and_without_sinks() -> None:
    assert policies((16, 32), 4) == [None, WindowPolicy(16), WindowPolicy(12, 4), WindowPolicy(32), WindowPolicy(28, 4)]


def test_bits_are_those_of_a_dense_mask_and_a_wide_window_is_full_attention() -> None:
    """Documents of 19 and 10 tokens: 18 + 9 are scored, keys seen by full attention 18 * 19 / 2 + 9 * 10 / 2 = 216.

    A window of 4 keys sees 1 + 2 + 3 + 4 * 15 = 66 and 1 + 2 + 3 + 4 * 6 = 30; so does one of 2 with 2 sinks.
    """
    documents = [random_prompt(19, VOCAB_SIZE, 1), random_prompt(10, VOCAB_SIZE, 2)]
    reaches = [None, WindowPolicy(40), WindowPolicy(40, 4), WindowPolicy(4), WindowPolicy(2, 2)]
    found = measure(from_module(tiny_model("llama")), documents, 50, reaches)
    full, wide, wide_with_sinks, window, sinks = [row["bits_per_character"] for row in found]
    assert wide == wide_with_sinks == full
    for bits, reach in ((window, WindowPolicy(4)), (sinks, WindowPolicy(2, 2))):
        expected = 0.0
        for ids in documents:
            rows = torch.log_softmax(
                masked_forward(tiny_model("llama"), ids, reach.reach(0, None)).logits[0].double(), dim=-1
            )
            expected -= sum(float(rows[p, ids[p + 1]]) for p in range(len(ids) - 1))
        assert bits == pytest.approx(expected / math.log(2) / 50, abs=1e-5)
    assert len({full, window, sinks}) == 3
    assert [row["hidden_share"] for row in found] == pytest.approx([0, 0, 0, 1 - 96 / 216, 1 - 96 / 216])
