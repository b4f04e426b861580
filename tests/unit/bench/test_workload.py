"""Workloads: the same seed gives the same requests, with the requested shape."""

import json

import numpy as np
import pytest

from engine.bench.errors import BenchError
from engine.bench.workload import (
    FIRST_ID,
    TRACES,
    FewShot,
    LateLong,
    MultiTurn,
    Random,
    SharedPrefix,
    Texts,
    Trace,
    Tree,
    Workload,
    requests_of,
)
from engine.model.sampling import sample_seed

VOCAB = 8192
MOONCAKE = "mooncake-conversation"
WORKLOADS: list[Workload] = [
    Random(num_requests=5, prompt_tokens=(4, 9), output_tokens=(2, 6), rate=3.0),
    SharedPrefix(num_requests=3, prefix_tokens=6, suffix_tokens=(1, 4), output_tokens=2),
    FewShot(
        num_requests=4, instruction_tokens=3, pool=5, examples=2, example_tokens=4, question_tokens=2, output_tokens=2
    ),
    MultiTurn(conversations=2, turns=3, system_tokens=4, user_tokens=(2, 3), output_tokens=2),
    Tree(depth=2, branching=3, node_tokens=4, output_tokens=1),
    LateLong(
        num_requests=2, prompt_tokens=3, output_tokens=4, long_tokens=20, long_output_tokens=1, at_step=7
    ),
    Trace(name="mooncake-conversation", num_requests=20, scale=32, most_tokens=300, stretch=0.5),
]  # fmt: skip


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: type(w).__name__)
def test_requests_are_determined_by_the_seed(workload: Workload) -> None:
    first = requests_of(workload, VOCAB, seed=1)
    assert first == requests_of(workload, VOCAB, seed=1)
    assert [a.prompt for a in first] != [a.prompt for a in requests_of(workload, VOCAB, seed=2)]
    assert all(FIRST_ID <= token < VOCAB for request in first for token in request.prompt)
    assert len({request.seed for request in first}) == len(first)


def test_lengths_cover_their_range() -> None:
    requests = requests_of(Random(num_requests=200, prompt_tokens=(4, 6), output_tokens=(1, 3)), VOCAB, 0)
    assert {len(request.prompt) for request in requests} == {4, 5, 6} and {
        request.output_tokens for request in requests
    } == {1, 2, 3}
    assert all(request.at == 0 for request in requests)


def test_poisson_gaps_are_exponential_with_the_given_mean() -> None:
    """Given 4 requests per second, mean and standard deviation of the gaps are 0.25 s (within 5 % over 4,000 gaps)."""
    requests = requests_of(Random(num_requests=4001, prompt_tokens=1, output_tokens=1, rate=4.0), VOCAB, 0)
    gaps = np.diff([request.at for request in requests])
    assert requests[0].at == 0 and (gaps > 0).all()
    assert abs(gaps.mean() - 0.25) < 0.0125 and abs(gaps.std() - 0.25) < 0.0125


def test_copies_of_a_request_have_the_seeds_of_its_samples() -> None:
    one = requests_of(Random(num_requests=2, prompt_tokens=3, output_tokens=2), VOCAB, 0)
    three = requests_of(Random(num_requests=2, prompt_tokens=3, output_tokens=2, copies=3), VOCAB, 0)
    assert [a.prompt for a in three] == [one[0].prompt] * 3 + [one[1].prompt] * 3
    assert [a.seed for a in three] == [sample_seed(request.seed, copy) for request in one for copy in range(3)]
    assert three[0].seed == one[0].seed


def test_prompts_share_a_prefix_and_differ_in_their_suffix() -> None:
    requests = requests_of(SharedPrefix(num_requests=3, prefix_tokens=6, suffix_tokens=4, output_tokens=2), VOCAB, 0)
    assert len({tuple(request.prompt[:6]) for request in requests}) == 1
    assert len({tuple(request.prompt[6:]) for request in requests}) == 3


def test_few_shot_examples_are_in_the_order_of_the_pool() -> None:
    workload = FewShot(
        num_requests=30, instruction_tokens=3, pool=3, examples=2, example_tokens=4, question_tokens=2, output_tokens=2
    )
    requests = requests_of(workload, VOCAB, 0)
    pairs = {(tuple(a.prompt[3:7]), tuple(a.prompt[7:11])) for a in requests}
    assert len(pairs) == 3, "two of three examples in fixed order: 3 combinations"
    assert {len(a.prompt) for a in requests} == {3 + 2 * 4 + 2}


def test_each_turn_follows_the_previous_one_of_its_conversation() -> None:
    workload = MultiTurn(conversations=2, turns=3, system_tokens=4, user_tokens=2, output_tokens=2)
    requests = requests_of(workload, VOCAB, 0)
    assert [request.after for request in requests] == [None, None, 0, 1, 2, 3]
    assert [len(request.prompt) for request in requests] == [6, 6, 2, 2, 2, 2]
    assert requests[0].prompt[:4] == requests[1].prompt[:4]


def test_a_tree_has_a_request_for_each_leaf() -> None:
    """Depth 2 with 3 children has 9 leaves at the ends of paths of 3 nodes of 4 tokens. All paths share the root, and
    three share a second node.
    """
    requests = requests_of(Tree(depth=2, branching=3, node_tokens=4, output_tokens=1), VOCAB, 0)
    assert [len(request.prompt) for request in requests] == [12] * 9
    assert len({tuple(a.prompt[:4]) for a in requests}) == 1 and len({tuple(a.prompt[:8]) for a in requests}) == 3


def test_the_long_prompt_is_submitted_last() -> None:
    *others, late = requests_of(WORKLOADS[-2], VOCAB, 0)
    assert (late.late, late.at_step, len(late.prompt)) == (True, 7, 20)
    assert not any(request.late or request.at_step for request in others)


def test_texts_need_a_tokenizer_and_random_tokens_a_vocabulary() -> None:
    with pytest.raises(BenchError, match="the model has no tokenizer"):
        requests_of(Texts(texts=["a"], output_tokens=1), VOCAB, 0)
    assert requests_of(Texts(texts=["ab"], output_tokens=1), VOCAB, 0, lambda t: [ord(c) for c in t])[0].prompt == [
        97,
        98,
    ]
    with pytest.raises(BenchError, match="a vocabulary of 128 tokens is too small"):
        requests_of(WORKLOADS[0], 128, 0)


def test_a_trace_preserves_shared_prefixes_and_arrival_times() -> None:
    """Lengths are divided by 32 and times by 2. Equal leading hashes give equal tokens."""
    requests = requests_of(Trace(name=MOONCAKE, num_requests=40, scale=32, most_tokens=9999, stretch=0.5), VOCAB, 0)
    rows = [json.loads(line) for line in (TRACES / f"{MOONCAKE}.jsonl").read_text().splitlines()[:40]]
    assert [len(request.prompt) for request in requests] == [row["input_length"] // 32 for row in rows]
    assert [request.output_tokens for request in requests] == [max(1, row["output_length"] // 32) for row in rows]
    assert requests[-1].at > 0 and [request.at for request in requests] == [row["timestamp"] / 1000 / 2 for row in rows]
    for one, row in zip(requests, rows, strict=True):
        for other, other_row in zip(requests, rows, strict=True):
            pairs = enumerate(zip(row["hash_ids"], other_row["hash_ids"], strict=False))
            equal = next((i for i, (a, b) in pairs if a != b), None)
            shared = next((i for i, (a, b) in enumerate(zip(one.prompt, other.prompt, strict=False)) if a != b), None)
            assert equal is None or shared == 16 * equal or min(map(len, (one.prompt, other.prompt))) <= 16 * equal


def test_a_trace_skips_long_requests_and_reports_missing_ones() -> None:
    few = requests_of(Trace(name=MOONCAKE, num_requests=9, scale=64, most_tokens=60, stretch=1.0), VOCAB, 0)
    assert len(few) == 9 and max(len(request.prompt) + request.output_tokens for request in few) <= 60
    assert few[0].at == 0, "times are relative to the first request"
    with pytest.raises(BenchError, match="has 240 requests of at most 9999 tokens"):
        requests_of(Trace(name=MOONCAKE, num_requests=999, scale=32, most_tokens=9999, stretch=1.0), VOCAB, 0)
    with pytest.raises(BenchError, match="no trace nothing; there are mooncake-conversation"):
        requests_of(Trace(name="nothing", num_requests=1, scale=32, most_tokens=99, stretch=1.0), VOCAB, 0)
