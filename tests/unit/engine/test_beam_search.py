"""Beam search as forks of one sequence, compared with transformers.

The definitions agree with early_stopping=False and scores over generated tokens. Logit adjustments are not compared:
transformers applies them to log probabilities, and the engine to logits.
"""

import pytest
import torch
from msgspec.structs import replace

from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.requests.beam_search import Beam, BeamCandidate, BeamSearch
from engine.requests.request import Request
from engine.requests.request_spec import RequestError
from engine.trace.operations import Copy, Finish, Fork, Free, Preempt, Rank
from engine.trace.snapshot import snapshot_of
from tests.tiny_models import tiny_model
from tests.unit.engine.runs import GREEDY, PROMPTS, log_of, ops_of, tiny_llama

CONFIG = EngineConfig(block_size=4, num_blocks=64, max_model_len=64)
BEAMS = SamplingParams(use_beam_search=True, beam_width=3, n=3, max_tokens=10)


def run(
    sampling: SamplingParams, config: EngineConfig = CONFIG, prompt: list[int] = PROMPTS[0], num_others: int = 0
) -> tuple[Request, list[Preempt]]:
    """Run a search with other requests. The log's state is compared with the engine after each record."""
    preemptions = []
    with Engine(tiny_llama(), config) as engine:
        others = [engine.add_request(PROMPTS[i + 1], GREEDY) for i in range(num_others)]
        request = engine.add_request(prompt, sampling)
        while engine.has_unfinished():
            record = engine.step()
            preemptions += ops_of(record, Preempt)
            engine.check_integrity()
            log = log_of(engine)
            assert snapshot_of(log.state_now()) == engine.snapshot()
        assert engine.snapshot().memory.blocks_held == 0
        assert all(len(r.output_token_ids) == GREEDY.max_tokens for r in others)
    return request, preemptions


def transformers_beams(sampling: SamplingParams, prompt: list[int], ends: list[int]) -> list[tuple[list[int], float]]:
    module = tiny_model("llama")
    found = module.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones((1, len(prompt)), dtype=torch.long),
        num_beams=sampling.beam_width,
        num_return_sequences=sampling.n,
        max_new_tokens=sampling.max_tokens,
        length_penalty=sampling.length_penalty,
        early_stopping=False,
        do_sample=False,
        eos_token_id=ends or None,
        pad_token_id=0,
        return_dict_in_generate=True,
        output_scores=True,
    )
    outputs = []
    for row, score in zip(found.sequences.tolist(), found.sequences_scores.tolist(), strict=True):
        output = row[len(prompt) :]
        end = next((i for i, token in enumerate(output) if token in ends), len(output))
        outputs.append((output[: end + 1], score))
    return outputs


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("prompt", [PROMPTS[0], PROMPTS[2], PROMPTS[5]], ids=["17 tokens", "3 tokens", "10 tokens"])
@pytest.mark.parametrize(("ends", "beam_width"), [([], 3), (list(range(40, 56)), 3), (list(range(0, 64)), 2)])
def test_beams_and_scores_equal_those_of_transformers(
    length_penalty: float, prompt: list[int], ends: list[int], beam_width: int
) -> None:
    """Given many end tokens, some beams end early and the search may stop before max_tokens."""
    sampling = replace(
        BEAMS, length_penalty=length_penalty, beam_width=beam_width, n=beam_width, ignore_eos=True, stop_token_ids=ends
    )
    request, _ = run(sampling, prompt=prompt)
    expected = transformers_beams(sampling, prompt, ends)
    assert [c.output_token_ids for c in request.outputs] == [tokens for tokens, _ in expected]
    assert [c.score for c in request.outputs] == pytest.approx([score for _, score in expected], abs=1e-5)


@pytest.mark.parametrize(
    ("config", "num_others"),
    [
        (CONFIG, 4),
        (replace(CONFIG, enable_prefix_caching=False), 3),
        (replace(CONFIG, max_num_batched_tokens=2), 2),
        (replace(CONFIG, num_blocks=21), 5),
        (replace(CONFIG, num_blocks=21, enable_prefix_caching=False), 5),
        (replace(CONFIG, num_blocks=21, preemption_mode="swap"), 5),
        (replace(CONFIG, num_blocks=21, preemption_mode="swap", swap_space=5), 5),
        (replace(CONFIG, num_blocks=21, scheduling_policy="priority"), 5),
        (EngineConfig(strategy="contiguous", block_size=4, num_blocks=48, max_model_len=32), 3),
    ],
)
def test_beam_search_does_not_depend_on_the_batch_or_preemption(config: EngineConfig, num_others: int) -> None:
    """17 + 10 - 1 tokens need 7 blocks of 4 for each of 3 beams, so 21 blocks are the smallest accepted pool."""
    expected, _ = run(BEAMS)
    request, preemptions = run(BEAMS, config, num_others=num_others)
    assert [c.output_token_ids for c in request.outputs] == [c.output_token_ids for c in expected.outputs]
    assert bool(preemptions) == (config.num_blocks == 21), "otherwise preemption is not tested"


def test_concurrent_beam_searches_resolve_deadlocks_by_preemption() -> None:
    """Each search fits the pool, all of them do not, and beams wait for beams that have no room."""
    prompts = [PROMPTS[0], PROMPTS[5], PROMPTS[0][::-1], PROMPTS[5][::-1]]
    expected = [run(BEAMS, prompt=p)[0] for p in prompts]
    reasons = set()
    for mode in ("recompute", "swap"):
        for caching in (True, False):
            config = replace(CONFIG, num_blocks=21, preemption_mode=mode, enable_prefix_caching=caching)
            with Engine(tiny_llama(), config) as engine:
                requests = [engine.add_request(p, BEAMS) for p in prompts]
                steps = 0
                while engine.has_unfinished():
                    reasons |= {op.reason for op in ops_of(engine.step(), Preempt)}
                    engine.check_integrity()
                    steps += 1
                    assert steps < 500
                for request, single in zip(requests, expected, strict=True):
                    assert [c.output_token_ids for c in request.outputs] == [c.output_token_ids for c in single.outputs]
    assert reasons == {"last_admitted", "deadlock"}, "otherwise the deadlock is not tested"


def test_a_dropped_beam_frees_only_its_own_blocks() -> None:
    """Each of the dropped beam's blocks loses one reference."""
    with Engine(tiny_llama(), CONFIG) as engine:
        engine.add_request(PROMPTS[0], replace(BEAMS, max_tokens=14, n=1))
        dropped = 0
        while engine.has_unfinished():
            before = engine.snapshot()
            record = engine.step()
            after = log_of(engine).state_now()
            for finish in [op for op in ops_of(record, Finish) if op.reason == "dropped"]:
                dropped += 1
                freed = [op for op in ops_of(record, Free) if op.seq_id == finish.seq_id]
                assert freed and not any(after.sequences[finish.seq_id].block_tables)
                shared = [op.block_id for op in freed if op.to is None]
                assert all(before.ref_counts[i] > 1 or after.blocks[i].ref_count > 0 for i in shared)
            engine.check_integrity()
        assert dropped > 0, "otherwise drops are not tested"


def test_forks_copies_and_ranks_of_a_beam_search_are_logged() -> None:
    with Engine(tiny_llama(), CONFIG) as engine:
        request = engine.add_request(PROMPTS[0], BEAMS)
        records = []
        while engine.has_unfinished():
            records.append(engine.step())
        assert [(op.parent_seq_id, op.reason) for op in ops_of(records[0], Fork)] == [(0, "beam")] * 2
        assert [len(r.batch) for r in records] == [1] + [3] * (len(records) - 1)
        assert len(ops_of(records[1], Copy)) == 2, "two of the three owners of the tail block copy it"
        (rank,) = ops_of(records[-1], Rank)
        assert rank.scores == sorted(rank.scores, reverse=True) and rank.num_returned == 3
        state = log_of(engine).state_now()
        assert [state.sequences[i].token_ids[17:] for i in rank.seq_ids[:3]] == [
            c.output_token_ids for c in request.outputs
        ]
        for completion in request.outputs:
            count = len(completion.output_token_ids)
            assert completion.score == pytest.approx(completion.cumulative_logprob / count, abs=1e-5)


def test_impossible_beam_searches_are_refused_with_the_numbers() -> None:
    for change, words in (
        ({"num_blocks": 20}, "a beam search of width 3 has 6 of the pool's 20 blocks per beam"),
        ({"strategy": "none"}, "strategy none has no cache"),
    ):
        with Engine(tiny_llama(), replace(CONFIG, **change)) as engine, pytest.raises(RequestError, match=words):
            engine.add_request(PROMPTS[0], BEAMS)


def test_beam_search_equals_a_hand_computed_example() -> None:
    """The width is 2, and token 9 ends a beam. In step 1, tokens 1 (-1) and 2 (-2) continue, and 9 (-3) is only third.
    In step 2, 9 ends a beam with -1 - 0.5 = -1.5, and 3 (-2) and 4 (-2.1) continue. In step 3, both can end with 9, at
    -2.2 and -2.3. The two best finished beams have -1.5 and -2.2, and running ones at most -9.
    """
    search = BeamSearch(2, 0.0, 10, frozenset({9}))

    def beam(cumulative: float, *pairs: tuple[int, float]) -> Beam:
        return Beam(cumulative, [BeamCandidate(token, logprob, logprob) for token, logprob in pairs])

    def chosen(*beams: Beam) -> list[tuple[int, int, float | None]]:
        return [(c.place, c.candidate.token_id, c.score) for c in search.choose(beams)]

    assert chosen(beam(0, (1, -1), (2, -2), (9, -3))) == [(0, 1, None), (0, 2, None)]
    continued = chosen(beam(-1, (9, -0.5), (3, -1)), beam(-2, (4, -0.1), (5, -7)))
    assert continued == [(0, 9, -1.5), (0, 3, None), (1, 4, None)]
    assert chosen(beam(-2, (9, -0.2), (6, -7)), beam(-2.1, (9, -0.2), (7, -8))) == [(0, 9, -2.2)] and search.done
