"""The 5-gram baseline is a proper probability model."""

import math
import random
from itertools import product

import pytest

from training.ngram import NGram

END = 0


def random_documents(vocabulary: int, count: int) -> list[list[int]]:
    rng = random.Random(0)
    return [[rng.choice([1, 1, 1, 2, 2, 3, 4]) for _ in range(rng.randint(2, 12))] + [END] for _ in range(count)]


def test_chances_of_the_next_token_sum_to_one() -> None:
    """Token 5 is in the vocabulary but never in the training text: its contexts and its chance must exist too."""
    for order, context in product([1, 2, 3, 5], [[1, 2], [3, 4], [1, 1, 2, 3], [5, 5], [1, 5]]):
        model = NGram(random_documents(6, 300), 6, END, order)
        before = model.bits([context])
        assert sum(2 ** (before - model.bits([[*context, token]])) for token in range(6)) == pytest.approx(1.0)


def test_a_sequence_seen_often_costs_next_to_nothing() -> None:
    """1 2 3 is always followed by 4: certain but for the discount of about one count in 400."""
    model = NGram([[1, 2, 3, 4, END] for _ in range(400)], 8, END)
    surprise = model.bits([[1, 2, 3, 4]]) - model.bits([[1, 2, 3]])
    assert surprise < 0.02


def test_longer_contexts_help_where_they_tell_more() -> None:
    """Whether 9 or 8 comes depends on the token two places before: a bigram is left with one bit, a trigram knows."""
    rng = random.Random(1)
    documents = [[first, 5, 9 if first == 1 else 8, END] for first in (rng.choice([1, 2]) for _ in range(2000))]
    bits = {order: NGram(documents, 10, END, order).bits([[1, 5, 9]]) for order in (2, 3)}
    assert bits[2] == pytest.approx(1.0, abs=0.1)
    assert bits[3] == pytest.approx(0.0, abs=0.1)


def test_no_context_reaches_into_the_document_before() -> None:
    """Scored together or apart, documents cost the same."""
    documents = random_documents(6, 50)
    model = NGram(random_documents(6, 300), 6, END)
    apart = math.fsum(model.bits([document]) for document in documents)
    assert model.bits(documents) == pytest.approx(apart)
