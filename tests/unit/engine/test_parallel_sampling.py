"""Several samples of one prompt: one prefill, shared blocks, copies on write, and a seed for each sample."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from app.ground.errors import refusal_of
from engine.config import ConfigError, EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.sampling import sample_seed
from engine.requests.request import Request
from engine.requests.request_spec import RequestError
from engine.trace import limits
from engine.trace.log import LogLimitError, TraceReader
from engine.trace.operations import Allocate, Copy, Fork, Preempt, Rank
from engine.trace.snapshot import snapshot_of
from tests.unit.engine.runs import PROMPTS, log_of, ops_of, tiny_llama

CONFIG = EngineConfig(block_size=4, num_blocks=32, max_model_len=64)
PROMPT = PROMPTS[0][:7]
SAMPLING = SamplingParams(temperature=1.0, seed=7, max_tokens=6, ignore_eos=True)


def run(
    config: EngineConfig, sampling: SamplingParams, others: list[list[int]] | None = None
) -> tuple[Request, Engine]:
    """Run the prompt with others. The log's state is compared with the engine after each record."""
    engine = Engine(tiny_llama(), config)
    for prompt in others or []:
        engine.add_request(prompt, SamplingParams(temperature=0.5, max_tokens=9, ignore_eos=True))
    request = engine.add_request(PROMPT, sampling)
    while engine.has_unfinished():
        engine.step()
        engine.check_integrity()
        log = log_of(engine)
        assert snapshot_of(log.state_now()) == engine.snapshot()
    return request, engine


def tokens(request: Request) -> list[list[int]]:
    return [c.output_token_ids for c in request.completions]


@pytest.mark.parametrize(("n", "num_copies", "num_blocks"), [(2, 1, 3), (4, 3, 5)])
def test_samples_share_one_prefill_and_copy_the_tail_block_on_write(n: int, num_copies: int, num_blocks: int) -> None:
    """Seven tokens fill block 0 and leave one slot in block 1. The first decode step copies block 1 for all owners but
    the last, so n = 2 takes 3 blocks and n = 4 takes 5.
    """
    with Engine(tiny_llama(), CONFIG) as engine:
        engine.add_request(PROMPT, replace(SAMPLING, n=n))
        prefill, decode = engine.step(), engine.step()
    assert [(b.seq_id, len(b.token_ids)) for b in prefill.batch] == [(0, 7)]
    assert [(op.parent_seq_id, op.seq_id) for op in ops_of(prefill, Fork)] == [(0, i) for i in range(1, n)]
    assert (prefill.memory.blocks_held, len(prefill.outputs)) == (2, n)
    assert (prefill.memory.tokens_held, prefill.memory.tokens_logical) == (7, 7 * n)
    copies = ops_of(decode, Copy)
    assert [(op.seq_id, op.logical, op.src, op.dst) for op in copies] == [(i, 1, 1, 2 + i) for i in range(n - 1)]
    assert len(copies) == num_copies == len(ops_of(decode, Allocate)) and decode.memory.blocks_held == num_blocks


def test_samples_equal_separate_requests_with_the_samples_seeds() -> None:
    """A fork reads the same keys and values that a separate sequence would compute."""
    request, engine = run(CONFIG, replace(SAMPLING, n=3))
    seeds = [op.seed for i in range(len(log_of(engine))) for op in ops_of(log_of(engine).record(i), Fork)]
    assert seeds == [sample_seed(7, 1), sample_seed(7, 2)]
    for seed, expected in zip([7, *seeds], request.completions, strict=True):
        separate, other = run(CONFIG, replace(SAMPLING, seed=seed))
        assert (tokens(separate), separate.text) == ([expected.output_token_ids], expected.text)
        other.close()
    assert len({tuple(t) for t in tokens(request)}) == 3
    engine.close()


@pytest.mark.parametrize(
    ("config", "others"),
    [
        (CONFIG, PROMPTS[1:4]),
        (replace(CONFIG, max_num_batched_tokens=3), PROMPTS[1:3]),
        (replace(CONFIG, enable_prefix_caching=False), []),
        (replace(CONFIG, num_blocks=8), PROMPTS[1:3]),
        (replace(CONFIG, num_blocks=8, preemption_mode="swap"), PROMPTS[1:3]),
        (EngineConfig(strategy="contiguous", block_size=4, num_blocks=64, max_model_len=32), PROMPTS[1:3]),
        (EngineConfig(strategy="none", block_size=4, num_blocks=32, max_model_len=32), PROMPTS[1:3]),
    ],
    ids=["company", "chunked", "no prefix caching", "preempted", "swapped", "contiguous", "no cache"],
)
def test_seeded_samples_do_not_depend_on_the_batch_or_preemption(config: EngineConfig, others: list[list[int]]) -> None:
    sampling = replace(SAMPLING, n=3, max_tokens=10)
    expected, separate = run(CONFIG, sampling)
    request, engine = run(config, sampling, others)
    if config.num_blocks == 8:
        log = log_of(engine)
        assert any(ops_of(log.record(i), Preempt) for i in range(len(log))), "otherwise preemption is not tested"
    assert tokens(request) == tokens(expected)
    separate.close()
    engine.close()


def test_best_of_returns_the_most_probable_samples() -> None:
    request, engine = run(CONFIG, replace(SAMPLING, n=2, best_of=4))
    scores = [c.cumulative_logprob for c in request.completions]
    assert [c.cumulative_logprob for c in request.outputs] == sorted(scores, reverse=True)[:2]
    log = log_of(engine)
    last = log.record(len(log) - 1)
    (rank,) = ops_of(last, Rank)
    assert (rank.num_returned, rank.scores) == (2, sorted(scores, reverse=True))
    state = log.state_now()
    for completion in request.completions:
        replayed = state.sequences[completion.sequence.seq_id]
        assert replayed.cumulative_logprob == replayed.score == completion.cumulative_logprob
        assert replayed.parent_seq_id == (None if completion is request.completions[0] else 0)
        assert replayed.rank == rank.seq_ids.index(completion.sequence.seq_id)
    engine.close()


def test_abort_ends_every_sequence() -> None:
    with Engine(tiny_llama(), CONFIG) as engine:
        request = engine.add_request(PROMPT, replace(SAMPLING, n=4), request_id="x")
        engine.step()
        engine.step()
        assert engine.num_unfinished == 1 and engine.abort("x")
        assert not engine.has_unfinished() and engine.snapshot().memory.blocks_held == 0
        assert {c.finish_reason for c in request.completions} == {"abort"} and request.finish_reason == "abort"


def test_max_num_seqs_counts_every_sample() -> None:
    with Engine(tiny_llama(), replace(CONFIG, max_num_seqs=4)) as engine:
        engine.add_request(PROMPT, replace(SAMPLING, n=3))
        engine.add_request(PROMPTS[2], replace(SAMPLING, n=2))
        while engine.has_unfinished():
            assert len(engine.step().batch) <= 4
        with pytest.raises(RequestError, match="this request runs 5 sequences, but max_num_seqs is 4"):
            engine.add_request(PROMPT, replace(SAMPLING, n=5))


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"n": 0}, "n must be at least 1"),
        ({"n": 3, "best_of": 2}, "best_of must be at least n"),
        ({"n": 2, "temperature": 0}, "all samples would be equal"),
        ({"use_beam_search": True}, "temperature must be 0"),
        ({"use_beam_search": True, "temperature": 0, "n": 5}, "at most beam_width .4. outputs"),
        ({"min_tokens": 7}, "min_tokens must be between 0 and max_tokens"),
        ({"logit_bias": {3: 101.0}}, "logit_bias must be at most 300 token ids"),
    ],
)
def test_contradictory_settings_are_refused(bad: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        replace(SAMPLING, **bad).checked()


def test_forks_over_the_readers_limits_end_the_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Seven forks of a prompt of 50 copy 7 * (2 * 50 + 13 entries of the table) = 791 units, of which 600 are allowed.
    The earlier records stay readable.
    """
    monkeypatch.setattr(limits, "FREE_UNITS", 600)
    monkeypatch.setattr(limits, "UNITS_PER_BYTE", 0)
    path = tmp_path / "a.kvtrace"
    config = EngineConfig(block_size=4, num_blocks=64)
    with Engine(tiny_llama(), config, log_path=path) as engine:
        engine.add_request([5] * 50, replace(SAMPLING, n=8))
        for _ in range(2):
            with pytest.raises(LogLimitError, match="the log ended after 1 records: the log would copy") as ended:
                engine.step()
        refusal = refusal_of(ended.value)
        assert refusal is not None and refusal.code == "refused" and refusal.message.endswith("starts a new run")
    with TraceReader(path) as reader:
        assert len(reader) == 1 and reader.damage is None
