"""Measures of training: attention patterns of heads, 5-grams, rhyme and tone, and window policies."""

import math
import random
from itertools import product

import pytest
import torch

from engine.cache.attention_span import WindowPolicy
from engine.model.loader import from_module
from tests.parity.harness import masked_forward, random_prompt
from tests.tiny_models import VOCAB_SIZE, tiny_model
from training.corpus import Poem
from training.heads import best_heads, named_keys, regular
from training.ngram import NGram
from training.prosody import alternates, is_level, prosody, rhymes, shuffled
from training.window_policy import measure, policies


def test_poems_with_equal_clause_lengths_are_regular() -> None:
    assert regular(Poem("诗", "", "", "白日依山尽，黄河入海流。欲穷千里目，更上一层楼。")) == 5
    assert regular(Poem("词", "", "", "寻寻觅觅，冷冷清清，凄凄惨惨戚戚。乍暖还寒时候，最难将息。")) is None


def test_keys_shared_by_two_patterns_are_not_counted() -> None:
    """A clause has 5 characters and a mark, 6 tokens. Token 8 is the third of the second clause, which begins at 6."""
    keys = {pattern: key for pattern, query, key in named_keys(5, 12) if query == 8}
    assert keys == {
        "previous_token": 7,
        "itself": 8,
        "first_token": 0,
        "last_punctuation": 5,
        "clause_start": 6,
        "parallel_clause": 2,
    }
    first = {pattern for pattern, query, _ in named_keys(5, 12) if query == 6}
    assert first == {"previous_token", "itself"}  # the parallel key is also the text's first token


def score(weights: list[list[float]]) -> dict[str, object]:
    return {"weights": torch.tensor(weights), "uniform": 0.1, "queries": 5}


def test_the_page_opens_with_the_first_strong_pattern() -> None:
    weak, strong = [[0.1, 0.3], [0.2, 0.1]], [[0.1, 0.2], [0.9, 0.1]]
    found = best_heads({"parallel_clause": score(weak), "previous_token": score(strong), "clause_start": score(strong)})
    assert found["opening"] == "previous_token"
    entry = next(e for e in found["patterns"] if e["pattern"] == "previous_token")
    assert (entry["layer"], entry["head"], entry["mean_weight"]) == (1, 0, 0.9)


END = 0


def random_documents(vocabulary: int, count: int) -> list[list[int]]:
    rng = random.Random(0)
    return [[rng.choice([1, 1, 1, 2, 2, 3, 4]) for _ in range(rng.randint(2, 12))] + [END] for _ in range(count)]


def test_probabilities_of_the_next_token_sum_to_one() -> None:
    """Token 5 is in the vocabulary but not in the training text, and must have a probability and contexts."""
    for order, context in product([1, 2, 3, 5], [[1, 2], [3, 4], [1, 1, 2, 3], [5, 5], [1, 5]]):
        model = NGram(random_documents(6, 300), 6, END, order)
        before = model.bits([context])
        assert sum(2 ** (before - model.bits([[*context, token]])) for token in range(6)) == pytest.approx(1.0)


def test_frequent_sequences_have_little_surprise() -> None:
    """4 always follows 1 2 3. The discount takes about one of 400 counts."""
    model = NGram([[1, 2, 3, 4, END] for _ in range(400)], 8, END)
    surprise = model.bits([[1, 2, 3, 4]]) - model.bits([[1, 2, 3]])
    assert surprise < 0.02


def test_longer_contexts_lower_the_bits_of_a_long_dependency() -> None:
    """The token two positions before decides between 9 and 8, so that a bigram needs one bit and a trigram none."""
    rng = random.Random(1)
    documents = [[first, 5, 9 if first == 1 else 8, END] for first in (rng.choice([1, 2]) for _ in range(2000))]
    bits = {order: NGram(documents, 10, END, order).bits([[1, 5, 9]]) for order in (2, 3)}
    assert bits[2] == pytest.approx(1.0, abs=0.1)
    assert bits[3] == pytest.approx(0.0, abs=0.1)


def test_no_context_crosses_a_document_boundary() -> None:
    documents = random_documents(6, 50)
    model = NGram(random_documents(6, 300), 6, END)
    separate = math.fsum(model.bits([document]) for document in documents)
    assert model.bits(documents) == pytest.approx(separate)


# 白日依山尽，黄河入海流。欲穷千里目，更上一层楼。流 and 楼 rhyme, both in a level tone.
REGULAR = ["白日依山尽", "黄河入海流", "欲穷千里目", "更上一层楼"]


def test_rhymes_are_by_rhyme_group_and_not_by_spelling() -> None:
    assert rhymes("流", "楼")  # iu and ou
    assert rhymes("山", "间")
    assert not rhymes("山", "流")
    assert not rhymes("流", "流")  # a character does not rhyme with itself


def test_level_tones_are_the_first_two() -> None:
    assert [is_level(char) for char in "江流水月"] == [True, True, False, False]


def test_tones_at_even_positions_alternate() -> None:
    assert alternates("欲穷千里目")  # 穷 level, 里 oblique
    assert not alternates("山山山山山")


def test_a_real_quatrain_has_full_rhyme_scores() -> None:
    found = prosody([REGULAR])
    assert (found["rhyme"], found["level_rhyme"]) == (1.0, 1.0)


def test_shuffling_keeps_characters_and_clause_lengths() -> None:
    poems = shuffled([REGULAR])
    assert sorted("".join(poems[0])) == sorted("".join(REGULAR))
    assert [len(clause) for clause in poems[0]] == [5, 5, 5, 5]


def test_the_number_of_keys_of_a_policy_includes_its_sinks() -> None:
    assert policies((16, 32), 4) == [None, WindowPolicy(16), WindowPolicy(12, 4), WindowPolicy(32), WindowPolicy(28, 4)]


def test_bits_of_window_policies_are_those_of_a_dense_mask() -> None:
    """Given 19 and 10 tokens, 18 + 9 are scored. Full attention sees 18 * 19 / 2 + 9 * 10 / 2 = 216 keys.

    A window of 4 keys, or of 2 and 2 sinks, sees 1 + 2 + 3 + 4 * 15 = 66 and 1 + 2 + 3 + 4 * 6 = 30.
    """
    documents = [random_prompt(19, VOCAB_SIZE, 1), random_prompt(10, VOCAB_SIZE, 2)]
    windows = [None, WindowPolicy(40), WindowPolicy(40, 4), WindowPolicy(4), WindowPolicy(2, 2)]
    found = measure(from_module(tiny_model("llama")), documents, 50, windows)
    full, wide, wide_with_sinks, window, sinks = [row["bits_per_character"] for row in found]
    assert wide == wide_with_sinks == full
    for bits, policy in ((window, WindowPolicy(4)), (sinks, WindowPolicy(2, 2))):
        expected = 0.0
        for ids in documents:
            rows = torch.log_softmax(
                masked_forward(tiny_model("llama"), ids, policy.reach(0, None)).logits[0].double(),
                dim=-1,
            )
            expected -= sum(float(rows[p, ids[p + 1]]) for p in range(len(ids) - 1))
        assert bits == pytest.approx(expected / math.log(2) / 50, abs=1e-5)
    assert len({full, window, sinks}) == 3
    assert [row["hidden_share"] for row in found] == pytest.approx([0, 0, 0, 1 - 96 / 216, 1 - 96 / 216])
