"""Finding heads by their patterns, on attention weights that are known beforehand."""

import torch

from training.corpus import Poem
from training.heads import best_heads, named_keys, regular


def test_regular_poems_are_those_of_one_clause_length() -> None:
    assert regular(Poem("诗", "", "", "白日依山尽，黄河入海流。欲穷千里目，更上一层楼。")) == 5
    assert regular(Poem("词", "", "", "寻寻觅觅，冷冷清清，凄凄惨惨戚戚。乍暖还寒时候，最难将息。")) is None


def test_keys_that_two_patterns_share_are_not_counted() -> None:
    """Clauses of five and a mark are 6 tokens; token 8 is the third of the second clause, which begins at 6."""
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
    assert first == {"previous_token", "itself"}  # its parallel key is the text's first token


def score(weights: list[list[float]]) -> dict[str, object]:
    return {"weights": torch.tensor(weights), "uniform": 0.1, "queries": 5}


def test_the_page_opens_on_the_first_pattern_that_is_strong_enough() -> None:
    weak, strong = [[0.1, 0.3], [0.2, 0.1]], [[0.1, 0.2], [0.9, 0.1]]
    found = best_heads({"parallel_clause": score(weak), "previous_token": score(strong), "clause_start": score(strong)})
    assert found["opening"] == "previous_token"
    entry = next(e for e in found["patterns"] if e["pattern"] == "previous_token")
    assert (entry["layer"], entry["head"], entry["mean_weight"]) == (1, 0, 0.9)
