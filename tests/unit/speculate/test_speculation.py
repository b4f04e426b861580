"""Speculative decoding keeps the tokens of a run without it, and the cache holds no rejected tokens."""

from __future__ import annotations

from collections import Counter
from functools import cache
from math import exp
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.config import ConfigError, EngineConfig, SamplingParams
from engine.engine import Engine
from engine.lab.rerun import Rerun
from engine.model.errors import ModelError
from engine.model.loader import load_model
from engine.requests.request_spec import RequestError, RequestSpec
from engine.scheduling.sequence import Sequence
from engine.speculate.build import build_drafter
from engine.speculate.draft_model import ModelDrafter
from engine.speculate.ngram import NgramDrafter
from engine.speculate.settings import Speculative
from engine.trace.check import check
from engine.trace.operations import Draft, Preempt, Sample, TakeBack, Verify
from tests.unit.engine.runs import CONFIGS, GREEDY, POLICIES, PROMPTS, log_of, ops_of, outputs_of, tiny_llama
from tests.unit.speculate.scripted import NGRAM, Scripted, records_of, right_then_wrong, speculating, step_checked

PROMPT = PROMPTS[0]
ROOMY = CONFIGS["roomy"]
WITH_CACHE = [name for name, config in CONFIGS.items() if config.strategy != "none"]


def finish(engine: Engine) -> None:
    while engine.has_unfinished():
        step_checked(engine)


@cache
def output_under(window: int | None) -> list[int]:
    [output] = outputs_of(replace(ROOMY, attention_window=window), [PROMPT], check=False)
    return output


@pytest.fixture(scope="module")
def future() -> list[int]:
    """Return the prompt and the model's continuation."""
    return PROMPT + output_under(None)


@settings(max_examples=40, deadline=None)
@given(
    block_size=st.sampled_from([1, 2, 3, 4, 16]),
    pattern=st.lists(st.integers(0, 5), min_size=1, max_size=5),
    max_drafts=st.integers(1, 6),
    max_tokens=st.integers(2, 12),
    budget=st.sampled_from([4, 512]),
    window=st.sampled_from([None, None, 5]),
)
def test_tokens_do_not_depend_on_the_pattern_of_acceptance(
    block_size: int, pattern: list[int], max_drafts: int, max_tokens: int, budget: int, window: int | None
) -> None:
    """`pattern` gives the number of right drafts in each step. A later prompt that hits the cached blocks has the same
    continuation.
    """
    config = replace(
        ROOMY, block_size=block_size, num_blocks=96, max_num_batched_tokens=budget, attention_window=window
    )
    output = output_under(window)
    full = PROMPT + output
    drafter = Scripted(right_then_wrong(full, lambda at: pattern[at % len(pattern)]))
    with speculating(config, drafter, max_drafts) as engine:
        request = engine.add_request(PROMPT, replace(GREEDY, max_tokens=max_tokens))
        finish(engine)
        assert request.output_token_ids == output[:max_tokens]
        verified = [op for record in records_of(engine) for op in ops_of(record, Verify)]
        taken = sum(op.num_tokens for record in records_of(engine) for op in ops_of(record, TakeBack))
        assert taken == sum(op.num_drafted - op.num_accepted for op in verified)
        again = engine.add_request(full[:-2], replace(GREEDY, max_tokens=2))
        finish(engine)
        assert again.output_token_ids == output[-2:]


@pytest.mark.parametrize("name", [*WITH_CACHE, *POLICIES])
def test_drafts_work_with_every_other_feature(name: str, tmp_path: Path) -> None:
    """Chunks, forks, hits, preemption, swaps, windows, aborts and forced tokens give a valid log that can be rerun."""
    config = replace({**CONFIGS, **POLICIES}[name], speculative_config=NGRAM)
    tokens: list[list[list[int]]] = []
    drafted = Counter[type]()
    for each in (replace(config, speculative_config=None), config):
        path = tmp_path / f"{len(tokens)}.kvtrace"
        with Engine(tiny_llama(), each, log_path=path) as engine:
            requests = engine.add_requests(
                [RequestSpec(prompt * 2, replace(GREEDY, max_tokens=6)) for prompt in PROMPTS[2:]]
            )
            for _ in range(2):
                step_checked(engine)
            requests += engine.add_requests([RequestSpec(prompt, GREEDY) for prompt in PROMPTS])
            sampling = SamplingParams(temperature=1.0, max_tokens=9, prompt_logprobs=1, logprobs=2)
            if config.strategy != "first_fit":
                requests.append(engine.add_request(PROMPTS[5], replace(sampling, n=2)))
            requests.append(engine.add_request(PROMPTS[5], replace(sampling, repetition_penalty=1.2, min_tokens=3)))
            engine.choose(requests[0].seq_id, 17, position=requests[0].num_prompt_tokens + 5)
            aborted = requests.pop(1)
            engine.abort(aborted.request_id)
            finish(engine)
            tokens.append([c.output_token_ids for request in requests for c in request.completions])
            for record in records_of(engine):
                for op in record.ops:
                    drafted[type(op)] += 1
                assert not {Preempt, Draft} <= {type(op) for op in record.ops}
            again = Engine(tiny_llama(), each)
            Rerun(again, log_of(engine), len(log_of(engine)), None, False).finish()
            again.close()
        assert list(check(path)) == []
    assert tokens[0] == tokens[1]
    assert drafted[Draft] == drafted[Verify] > 0
    assert drafted[TakeBack] > 0


def test_each_draft_has_a_captured_query_whose_attention_sums_to_one(future: list[int]) -> None:
    with speculating(ROOMY, Scripted(right_then_wrong(future, lambda at: 2)), capture=True) as engine:
        engine.add_request(PROMPT, GREEDY)
        finish(engine)
        log = log_of(engine)
        index = next(i for i in range(len(log)) if ops_of(log.record(i), Draft))
        capture, [entry] = log.capture(index), log.record(index).batch
        assert capture is not None
        for layer in capture.layers:
            assert layer.k.shape[0] == len(entry.token_ids) > 1
            assert sum(rows.weights.shape[1] for rows in layer.rows) == len(entry.token_ids)
            assert all(abs(float(sums) - 1) < 1e-2 for rows in layer.rows for sums in rows.weights.sum(-1).ravel())
        assert entry.phase == "decode"


def test_a_stop_token_among_accepted_drafts_ends_the_sequence(future: list[int]) -> None:
    stop = future[len(PROMPT) + 3]
    first = future.index(stop, len(PROMPT))
    with speculating(ROOMY, Scripted(right_then_wrong(future, lambda at: 6))) as engine:
        request = engine.add_request(PROMPT, replace(GREEDY, stop_token_ids=[stop]))
        finish(engine)
        assert request.output_token_ids == future[len(PROMPT) : first + 1]
        assert request.finish_reason == "stop"
        assert engine.snapshot().memory.blocks_held == 0


@pytest.mark.parametrize("where", ["forward", "sample"])
def test_a_failed_step_leaves_a_consistent_engine(
    where: str, future: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object) -> None:
        raise OSError("on purpose")

    path = tmp_path / "failed.kvtrace"
    with speculating(ROOMY, Scripted(right_then_wrong(future, lambda at: 2)), path=path) as engine:
        request = engine.add_request(PROMPT, GREEDY)
        while not request.sequence.has_output:
            engine.step()
        with monkeypatch.context() as patch:
            if where == "forward":
                patch.setattr(engine._runner, "execute", fail)
            else:
                patch.setattr(engine._outputs.sampler, "sample", fail)
            with pytest.raises(OSError, match="on purpose"):
                engine.step()
        log = log_of(engine)
        assert ops_of(log.record(len(log) - 1), Draft)
        engine.check_integrity()
        assert engine.snapshot().memory.blocks_held == 0
        engine.add_request(PROMPT, GREEDY)
        finish(engine)
    assert list(check(path)) == []


def test_a_failed_drafter_leaves_no_cached_block_of_the_step(future: list[int], tmp_path: Path) -> None:
    """The admitted prompt is not computed, so a repeated request must not hit its blocks."""
    other = [token % 90 + 3 for token in PROMPT[::-1]]
    [expected] = outputs_of(ROOMY, [other], check=False)
    script, path = Scripted(right_then_wrong(future, lambda at: 2)), tmp_path / "failed.kvtrace"
    with speculating(ROOMY, script, path=path) as engine:
        request = engine.add_request(PROMPT, GREEDY)
        while not request.sequence.has_output:
            engine.step()
        engine.add_request(other, GREEDY)
        script.propose = lambda wanted: 1 // 0  # type: ignore[method-assign, assignment, return-value]
        with pytest.raises(ZeroDivisionError):
            engine.step()
        del script.propose
        engine.check_integrity()
        assert engine.snapshot().memory.blocks_held == 0
        again = engine.add_request(other, GREEDY)
        finish(engine)
        assert again.output_token_ids == expected
    assert list(check(path)) == []


def test_drafts_preempt_no_sequence(future: list[int]) -> None:
    """The pool has one spare block, so drafts get it and then none."""
    config = EngineConfig(block_size=4, num_blocks=8, max_model_len=32)
    with speculating(config, Scripted(right_then_wrong(future, lambda at: 4))) as engine:
        for prompt in (PROMPT[:9], PROMPT[::-1][:9]):
            engine.add_request(prompt, GREEDY)
        finish(engine)
        records = records_of(engine)
        assert any(ops_of(record, Draft) for record in records)
        assert any(ops_of(record, Preempt) for record in records)
        for record in records:
            assert not {Preempt, Draft} <= {type(op) for op in record.ops}


def test_samples_follow_the_distribution_of_the_model() -> None:
    """A chi-square test compares tokens sampled where a draft was verified with the model's probabilities."""
    sampling = SamplingParams(temperature=1.0, top_k=4, max_tokens=4, ignore_eos=True, logprobs=4)
    config = replace(ROOMY, num_blocks=1000, max_num_seqs=50, max_num_batched_tokens=2000)
    found: dict[tuple[int, ...], Counter[int]] = {}
    expected: dict[tuple[int, ...], dict[int, float]] = {}
    # repeated context tokens as drafts are sometimes right and mostly wrong
    with speculating(
        config, Scripted(lambda token_ids, max_drafts: [token_ids[-1], token_ids[-2], 7][:max_drafts]), 3
    ) as engine:
        for round_ in range(20):
            engine.add_requests([RequestSpec([5, 9, 11], replace(sampling, seed=100 * round_ + i)) for i in range(50)])
            while engine.has_unfinished():
                engine.step()
        log = records_of(engine)
        texts: dict[int, list[int]] = {}
        for record in log:
            verified = {op.seq_id for op in ops_of(record, Verify)}
            for output in record.outputs:
                so_far = texts.setdefault(output.seq_id, [])
                if output.seq_id in verified:
                    top = {c.token_id: exp(c.logprob) for c in output.top[:4]}
                    expected[tuple(so_far)] = {i: p / sum(top.values()) for i, p in top.items()}
                    found.setdefault(tuple(so_far), Counter())[output.token_id] += 1
                so_far.append(output.token_id)
        assert sum(op.num_accepted for record in log for op in ops_of(record, Verify)) > 50
    statistic, freedom = 0.0, 0
    for context, counts in found.items():
        total, probabilities = counts.total(), expected[context]
        if total * min(probabilities.values()) < 5:
            continue
        statistic += sum((counts[i] - total * p) ** 2 / (total * p) for i, p in probabilities.items())
        freedom += len(probabilities) - 1
    assert freedom >= 9
    # mean `freedom`, variance 2 * freedom: five deviations
    assert statistic < freedom + 5 * (2 * freedom) ** 0.5


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_seed_gives_the_same_tokens_with_and_without_drafts(temperature: float) -> None:
    sampling = SamplingParams(max_tokens=20, temperature=temperature, seed=3, ignore_eos=True, repetition_penalty=1.1)
    outputs = []
    for speculative in (None, NGRAM):
        with Engine(tiny_llama(), replace(ROOMY, speculative_config=speculative)) as engine:
            request = engine.add_request(PROMPTS[2] * 4, sampling)
            finish(engine)
            outputs.append(request.output_token_ids)
            sampled = [op.token_id for record in records_of(engine) for op in ops_of(record, Sample)]
            assert sampled == request.output_token_ids
    assert outputs[0] == outputs[1]


@given(tokens=st.lists(st.integers(0, 2), min_size=1, max_size=20), low=st.integers(1, 3), more=st.integers(0, 2))
def test_ngram_drafts_are_those_of_a_plain_search(tokens: list[int], low: int, more: int) -> None:
    def plain() -> list[int]:
        for n in range(low + more, low - 1, -1):
            for at in range(len(tokens) - n):
                if tokens[at : at + n] == tokens[-n:]:
                    return tokens[at + n : at + n + 3]
        return []

    sequence = Sequence(seq_id=0, request_id="", token_ids=tokens, num_prompt_tokens=1, max_tokens=9)
    [found] = NgramDrafter(low, low + more).propose([(sequence, 3)])
    assert found.token_ids == plain()


def test_tokens_and_bytes_of_a_draft_model_are_logged() -> None:
    """The bundled model is its own draft model, so every draft is right."""
    model = load_model("bundled")
    config = EngineConfig(
        block_size=4, num_blocks=40, max_model_len=96, enforce_eager=True,
        speculative_config='{"model": "bundled", "num_speculative_tokens": 3}',
    )  # fmt: skip
    with Engine(model, config) as engine:
        engine.add_request("Once upon a time", SamplingParams(max_tokens=9, ignore_eos=True))
        finish(engine)
        drafts = [op for record in records_of(engine) for op in ops_of(record, Draft)]
        verified = [op for record in records_of(engine) for op in ops_of(record, Verify)]
        steps = [record for record in records_of(engine) if ops_of(record, Draft)]
    assert all(0 < record.timing.draft < record.timing.schedule for record in steps)
    assert [op.num_accepted for op in verified] == [op.num_drafted for op in verified] == [3, 3]
    assert all(op.method == "draft_model" and op.num_computed_tokens >= 3 for op in drafts)
    # after the first proposal only the last, partial block is computed again
    assert drafts[1].num_computed_tokens <= 3 + 4 + 3
    assert drafts[1].num_bytes % model.facts.num_layers == 0 < drafts[0].num_bytes < drafts[1].num_bytes


@pytest.mark.parametrize("method", ["add_request", "step"])
def test_a_failed_draft_model_drops_its_requests_and_recovers(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second call of `method` fails."""
    requests = [
        (Sequence(seq_id=i, request_id="", token_ids=[5, 9, 11], num_prompt_tokens=3, max_tokens=9), 3) for i in (0, 1)
    ]
    with Engine(tiny_llama(), ROOMY, keep_log=False) as engine:
        original, calls = getattr(engine, method), Counter[str]()

        def fail_second(*args: object, **options: object) -> object:
            calls[method] += 1
            if calls[method] == 2:
                raise OSError("on purpose")
            return original(*args, **options)

        drafter = ModelDrafter(engine.model, engine)
        with monkeypatch.context() as patch:
            patch.setattr(engine, method, fail_second)
            with pytest.raises(OSError, match="on purpose"):
                drafter.propose(requests)
        assert not engine.has_unfinished()
        assert engine.snapshot().memory.blocks_held == 0
        assert [len(proposal.token_ids) for proposal in drafter.propose(requests)] == [3, 3]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"speculative_config": "{"}, "must be JSON"),
        ({"speculative_config": '{"method": "eagle", "num_speculative_tokens": 2}'}, "must be JSON"),
        ({"speculative_config": '{"method": "ngram", "num_speculative_tokens": 99}'}, "between 1 and 16"),
        ({"speculative_config": '{"method": "draft_model", "num_speculative_tokens": 2}'}, "needs a model"),
        ({"speculative_config": '{"model": "bundled", "num_speculative_tokens": 2}'}, "the same vocabulary"),
        ({"speculative_config": '{"model": "bundled-hybrid", "num_speculative_tokens": 2}'}, "has recurrent states"),
        ({"speculative_config": NGRAM, "strategy": "none"}, "strategy none has no blocks"),
        ({"speculative_config": NGRAM, "strategy": "dynamic"}, "strategy dynamic has no blocks"),
        ({"speculative_config": NGRAM, "fault": "slot_off_by_one"}, "does not support a run with"),
    ],
)
def test_incompatible_options_are_refused(changes: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Engine(tiny_llama(), replace(ROOMY, **changes))


def test_the_error_names_a_draft_pool_that_does_not_fit() -> None:
    """The user's own `num_blocks` differs from the draft pool's."""

    def no_memory(_model: object, config: EngineConfig) -> Engine:
        raise ModelError(f"{config.num_blocks} blocks do not fit")

    config = EngineConfig(block_size=16, num_blocks=10, max_num_seqs=8, max_model_len=96)
    speculative = Speculative(method="draft_model", model="bundled", num_speculative_tokens=3)
    message = "the draft model's pool, for the tokens of the model's pool and 8 drafts: 48 blocks do not fit"
    with pytest.raises(ConfigError, match=message):
        build_drafter(speculative, load_model("bundled"), config, no_memory)


def test_beam_search_is_refused() -> None:
    with Engine(tiny_llama(), replace(ROOMY, speculative_config=NGRAM)) as engine, pytest.raises(RequestError):
        engine.add_request(PROMPT, SamplingParams(use_beam_search=True, max_tokens=4))
