"""logit_bias, min_tokens, ignore_eos, prompt log probabilities and seeds, through the engine."""

import math

import pytest
import torch
from msgspec.structs import replace

from engine.config import ConfigError, EngineConfig, SamplingParams
from engine.engine import Engine
from engine.requests.request import Request
from engine.requests.request_spec import RequestError
from engine.setup.resolve import resolve
from engine.trace.operations import Lookup, Preempt
from engine.trace.records import PromptLogprob, StepRecord
from tests.tiny_models import tiny_model
from tests.unit.engine.runs import GREEDY, PROMPTS, ops_of, tiny_llama

CONFIG = EngineConfig(block_size=4, num_blocks=32, max_model_len=64)


def run(
    sampling: SamplingParams,
    config: EngineConfig = CONFIG,
    prompt: list[int] = PROMPTS[0],
    others: list[list[int]] | None = None,
) -> tuple[Request, list[StepRecord]]:
    records = []
    with Engine(tiny_llama(), config) as engine:
        for other in others or []:
            engine.add_request(other, SamplingParams(temperature=0.9, max_tokens=9, ignore_eos=True))
        request = engine.add_request(prompt, sampling)
        while engine.has_unfinished():
            records.append(engine.step())
            engine.check_integrity()
    return request, records


def test_a_logit_bias_of_100_forces_and_of_minus_100_forbids_a_token() -> None:
    request, records = run(replace(GREEDY, logit_bias={77: 100.0}))
    assert request.output_token_ids == [77] * 12
    raw = next(o for r in records for o in r.outputs)
    assert raw.logprob < math.log(0.5), "log probabilities are of the raw distribution"
    free, _ = run(GREEDY)
    first = free.output_token_ids[0]
    request, _ = run(replace(GREEDY, logit_bias={first: -100.0}))
    assert first not in request.output_token_ids


def test_a_logit_bias_outside_the_vocabulary_is_refused() -> None:
    with Engine(tiny_llama(), CONFIG) as engine, pytest.raises(RequestError, match="logit_bias has token ids outside"):
        engine.add_request([1], SamplingParams(logit_bias={10**6: 1.0}))


def test_min_tokens_forbids_end_and_stop_tokens() -> None:
    """A bias makes the end token 2, or a stop token, the most probable: it is token 1, or token 5 with min_tokens."""
    for ends, sampling in (
        ([2], SamplingParams(max_tokens=9, logit_bias={2: 100.0})),
        ([9], SamplingParams(max_tokens=9, ignore_eos=True, stop_token_ids=[9], logit_bias={9: 100.0})),
    ):
        request, _ = run(sampling)
        assert request.output_token_ids == ends and request.finish_reason == "stop"
        request, _ = run(replace(sampling, min_tokens=4))
        assert len(request.output_token_ids) == 5 and request.output_token_ids[-1:] == ends
        assert ends[0] not in request.output_token_ids[:4]
    request, _ = run(SamplingParams(max_tokens=9, ignore_eos=True, logit_bias={2: 100.0}))
    assert request.output_token_ids == [2] * 9, "ignore_eos"


def test_min_tokens_applies_to_beams() -> None:
    sampling = SamplingParams(use_beam_search=True, beam_width=2, n=2, max_tokens=6, logit_bias={2: 50.0})
    request, _ = run(sampling)
    assert request.output_token_ids == [2]
    request, _ = run(replace(sampling, min_tokens=3))
    assert all(len(c.output_token_ids) >= 4 and 2 not in c.output_token_ids[:3] for c in request.outputs)


def expected_logprobs(prompt: list[int]) -> list[float]:
    with torch.inference_mode():
        logprobs = torch.log_softmax(tiny_model("llama")(torch.tensor([prompt])).logits[0].float(), dim=-1)
    return [float(logprobs[i, token]) for i, token in enumerate(prompt[1:])]


@pytest.mark.parametrize(
    ("config", "others"),
    [
        (CONFIG, []),
        (CONFIG, [PROMPTS[0], PROMPTS[3]]),
        (replace(CONFIG, max_num_batched_tokens=3), [PROMPTS[2]]),
        (replace(CONFIG, max_num_batched_tokens=1), []),
        (replace(CONFIG, num_blocks=8), [PROMPTS[5], PROMPTS[2]]),
        (replace(CONFIG, num_blocks=8, preemption_mode="swap"), [PROMPTS[5], PROMPTS[2]]),
        (EngineConfig(strategy="none", block_size=4, num_blocks=32, max_model_len=32), [PROMPTS[2]]),
    ],
    ids=["alone", "equal prompts", "chunks of 3", "chunks of 1", "preempted", "swapped", "no cache"],
)
def test_prompt_logprobs_are_complete_and_reported_once(config: EngineConfig, others: list[list[int]]) -> None:
    """Positions 1 to 16 of 17 are reported even if they are cached, chunked or computed twice."""
    plain, _ = run(GREEDY)
    request, records = run(replace(GREEDY, prompt_logprobs=2), config, others=others)
    found = [item for record in records for item in record.prompt_logprobs]
    assert [(i.position, i.token_id) for i in found] == list(enumerate(PROMPTS[0]))[1:]
    assert {i.seq_id for i in found} == {request.seq_id}
    assert [i.logprob for i in found] == pytest.approx(expected_logprobs(PROMPTS[0]), abs=1e-4)
    assert all(len(i.top) == 2 and i.top[0].logprob >= i.logprob - 1e-6 for i in found)
    assert request.output_token_ids == plain.output_token_ids


def test_prompt_logprobs_skip_the_prefix_cache() -> None:
    with Engine(tiny_llama(), CONFIG) as engine:
        engine.add_request(PROMPTS[0], GREEDY)
        while engine.has_unfinished():
            engine.step()
        engine.add_request(PROMPTS[0], replace(GREEDY, prompt_logprobs=0))
        record = engine.step()
        (lookup,) = ops_of(record, Lookup)
        assert (lookup.verdict, lookup.num_hit_tokens, record.batch[0].start) == ("skipped", 0, 0)
        assert len(record.prompt_logprobs) == 16 and record.prompt_logprobs[0].top == []
        engine.add_request(PROMPTS[0], GREEDY)
        (lookup,) = ops_of(engine.step(), Lookup)
        assert lookup.verdict == "hit", "the blocks are cached for other requests"


def test_a_preemption_during_prefill_repeats_no_prompt_logprob() -> None:
    """Given a budget of 4, the prompt of 17 is in its third chunk when an earlier sequence preempts it."""
    config = replace(CONFIG, num_blocks=7, max_num_batched_tokens=4)
    with Engine(tiny_llama(), config) as engine:
        engine.add_request(PROMPTS[2], replace(GREEDY, max_tokens=20))
        engine.step()
        request = engine.add_request(PROMPTS[0], replace(GREEDY, max_tokens=8, prompt_logprobs=1))
        found: list[PromptLogprob] = []
        interrupted = False
        while engine.has_unfinished():
            record = engine.step()
            interrupted |= any(0 < len(found) < 16 for _ in ops_of(record, Preempt))
            found += record.prompt_logprobs
        assert interrupted, "otherwise the preemption is not tested"
        assert [i.position for i in found] == list(range(1, 17))
        assert [i.logprob for i in found] == pytest.approx(expected_logprobs(PROMPTS[0]), abs=1e-4)
        assert request.output_token_ids == run(GREEDY)[0].output_token_ids[:8]


@pytest.mark.parametrize("number", [0, 1])
def test_engines_with_different_seeds_draw_different_tokens(number: int) -> None:
    """A request without a seed draws by every bit of the engine's seed and by its number. Its draws do not depend on
    batch, chunks or preemption.
    """
    sampling = SamplingParams(temperature=1.0, max_tokens=12, ignore_eos=True)
    others = [PROMPTS[1]] * number

    def draw_tokens(seed: int, **settings: int) -> list[int]:
        return run(sampling, replace(CONFIG, seed=seed, **settings), others=others)[0].output_token_ids

    by_seed = {seed: draw_tokens(seed) for seed in (0, 1, 99, 1 + 2**32, -1)}
    assert len({tuple(tokens) for tokens in by_seed.values()}) == len(by_seed)
    for seed, tokens in by_seed.items():
        assert draw_tokens(seed, max_num_seqs=1) == tokens
        assert draw_tokens(seed, max_num_batched_tokens=5) == tokens
        assert draw_tokens(seed, block_size=8, num_blocks=5) == tokens


def test_requests_of_one_engine_draw_different_tokens() -> None:
    sampling = SamplingParams(temperature=1.0, max_tokens=12, ignore_eos=True)
    with Engine(tiny_llama(), CONFIG) as engine:
        requests = [engine.add_request(PROMPTS[0], sampling) for _ in range(4)]
        while engine.has_unfinished():
            engine.step()
    assert len({tuple(request.output_token_ids) for request in requests}) == 4


def test_every_bit_of_a_seed_changes_the_draws() -> None:
    """The second sample of a request also differs from a request with the next seed."""
    draw_tokens = {
        seed: run(SamplingParams(temperature=1.0, max_tokens=12, ignore_eos=True, seed=seed, n=2))[0]
        for seed in (7, 8, 7 + 2**32, 7 + 2**52, -7)
    }
    outputs = [tuple(c.output_token_ids) for request in draw_tokens.values() for c in request.completions]
    assert len(set(outputs)) == len(outputs) == 10


@pytest.mark.parametrize("seed", [2**53, -(2**53), 2**64])
def test_seeds_outside_the_range_of_exact_floats_are_refused(seed: int) -> None:
    with pytest.raises(ConfigError, match="seed must be between -9007199254740991 and 9007199254740991"):
        SamplingParams(seed=seed).checked()
    with pytest.raises(ConfigError, match="seed must be between"):
        resolve(EngineConfig(seed=seed), 64)
