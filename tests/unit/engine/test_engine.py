"""Public interface of the engine: requests, records, and refusals in one sentence."""

from typing import get_args

import pytest
from msgspec.structs import replace

from engine.accounting.memory import stored_bytes_per_token
from engine.config import ConfigError, EngineConfig, KVCacheDtype, SamplingParams
from engine.engine import Engine, NothingToDo
from engine.model.capture import CaptureRequest
from engine.model.loader import load_model
from engine.requests.request_spec import RequestError, RequestSpec
from engine.trace.limits import MAX_WHOLE
from engine.trace.operations import Finish, Submit
from engine.trace.snapshot import snapshot_of
from tests.unit.engine.runs import GREEDY, PROMPTS, log_of, tiny_llama

SMALL = EngineConfig(block_size=4, num_blocks=16, max_model_len=32)


@pytest.fixture
def engine():
    with Engine(tiny_llama(), SMALL) as engine:
        yield engine


def finish(engine: Engine) -> None:
    while engine.has_unfinished():
        engine.step()


def test_a_prompt_is_prefilled_in_one_step_and_decoded_token_by_token(engine: Engine) -> None:
    request = engine.add_request(PROMPTS[2], SamplingParams(max_tokens=3, ignore_eos=True))
    prefill, *decodes = [engine.step() for _ in range(3)]
    assert [(b.phase, b.start, len(b.token_ids), b.context_len) for b in prefill.batch] == [("prefill", 0, 3, 3)]
    assert [(d.batch[0].phase, d.batch[0].start, d.batch[0].context_len) for d in decodes] == [
        ("decode", 3, 4),
        ("decode", 4, 5),
    ]
    assert not engine.has_unfinished() and request.finish_reason == "length"
    assert len(request.output_token_ids) == 3
    # the last sampled token is never computed, so 3 + 3 - 1 slots are written
    assert request.sequence.num_computed_tokens == 5


def test_a_step_without_requests_is_refused(engine: Engine) -> None:
    with pytest.raises(NothingToDo):
        engine.step()


def test_greedy_chooses_the_most_probable_candidate(engine: Engine) -> None:
    engine.add_request(PROMPTS[0], GREEDY)
    output = engine.step().outputs[0]
    assert output.token_id == output.top[0].token_id and output.logprob == output.top[0].logprob
    assert [c.logprob for c in output.top] == sorted((c.logprob for c in output.top), reverse=True)
    assert len(output.top) == engine.config.num_logprobs


def test_more_logprobs_of_a_request_do_not_affect_others(engine: Engine) -> None:
    detailed = engine.add_request(PROMPTS[0], replace(GREEDY, logprobs=9), client="alice", waited=0.25)
    plain = engine.add_request(PROMPTS[1], GREEDY)
    tops = {output.seq_id: output.top for output in engine.step().outputs}
    assert len(tops[detailed.seq_id]) == 9 and len(tops[plain.seq_id]) == engine.config.num_logprobs == 5
    submitted = log_of(engine).record(0).ops[0]
    assert isinstance(submitted, Submit) and (submitted.client, submitted.waited) == ("alice", 0.25)


@pytest.mark.parametrize(
    ("prompt", "sampling", "words"),
    [
        ([], GREEDY, "empty"),
        ("", GREEDY, "empty"),
        ([1] * 32, GREEDY, "32 tokens.*max_model_len 32"),
        ([1] * 20, SamplingParams(max_tokens=14), "20 prompt tokens . 14 .*at most 12"),
        ([1, 99999], GREEDY, "outside"),
        ([1, -1], GREEDY, "outside"),
    ],
)
def test_impossible_requests_are_refused_with_the_numbers(
    engine: Engine, prompt: str | list[int], sampling: SamplingParams, words: str
) -> None:
    with pytest.raises(RequestError, match=words) as error:
        engine.add_request(prompt, sampling)
    assert "\n" not in str(error.value)
    assert len(log_of(engine)) == 0 and not engine.has_unfinished()


@pytest.mark.parametrize("priority", [MAX_WHOLE + 1, -(2**60), 2**70])
def test_a_priority_outside_the_logs_range_is_refused(engine: Engine, priority: int) -> None:
    with pytest.raises(RequestError, match="priority must be between"):
        engine.add_request(PROMPTS[0], GREEDY, priority=priority)
    engine.add_request(PROMPTS[0], GREEDY, priority=MAX_WHOLE)
    assert [op.priority for op in log_of(engine).record(0).ops if isinstance(op, Submit)] == [MAX_WHOLE]


def test_a_prompt_over_the_pool_is_refused_with_the_numbers() -> None:
    """A pool of 3 blocks x 4 has 12 slots, and 14 prompt tokens need 4 blocks."""
    with (
        Engine(tiny_llama(), EngineConfig(block_size=4, num_blocks=3, max_model_len=32)) as engine,
        pytest.raises(RequestError, match="14 tokens need 4 blocks of 4; the pool has 3"),
    ):
        engine.add_request([1] * 14, SamplingParams())


def test_a_request_that_fits_exactly_runs_to_its_end() -> None:
    """12 slots hold 5 prompt tokens and 8 - 1 new ones."""
    with Engine(tiny_llama(), EngineConfig(block_size=4, num_blocks=3, max_model_len=32)) as engine:
        request = engine.add_request([1, 2, 3, 4, 5], SamplingParams(max_tokens=8, ignore_eos=True))
        finish(engine)
        assert len(request.output_token_ids) == 8
        with pytest.raises(RequestError, match="at most 8"):
            engine.add_request([1, 2, 3, 4, 5], SamplingParams(max_tokens=9))


def test_one_invalid_request_refuses_the_whole_submission(engine: Engine) -> None:
    with pytest.raises(RequestError):
        engine.add_requests([RequestSpec([1, 2], GREEDY), RequestSpec([], GREEDY)])
    assert not engine.has_unfinished()
    first, second = engine.add_requests([RequestSpec([1, 2], GREEDY), RequestSpec([3], GREEDY)])
    assert (first.seq_id, second.seq_id) == (0, 1)
    assert len(log_of(engine)) == 1
    assert [e.seq_id for e in engine.step().batch] == [0, 1]


def test_an_id_in_use_is_refused(engine: Engine) -> None:
    engine.add_request([1], GREEDY, request_id="x")
    with pytest.raises(RequestError, match="'x' is in use"):
        engine.add_request([1], GREEDY, request_id="x")


def test_abort_frees_all_blocks(engine: Engine) -> None:
    engine.add_request(PROMPTS[0], GREEDY, request_id="x")
    engine.step()
    assert engine.abort("x") and not engine.abort("x") and not engine.abort("unknown")
    assert engine.snapshot().memory.blocks_held == 0
    assert engine.log is not None
    last = engine.log.record(len(engine.log) - 1)
    assert last.kind == "abort" and isinstance(last.ops[-1], Finish) and last.ops[-1].reason == "abort"


def test_a_failed_step_aborts_its_batch_and_leaves_a_consistent_engine(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prompts are equal, so one shares blocks that the other would write in the failing step."""
    first, second = engine.add_requests([RequestSpec(PROMPTS[0], GREEDY), RequestSpec(PROMPTS[3], GREEDY)])
    with monkeypatch.context() as broken:
        broken.setattr(engine._runner, "execute", lambda *_: (_ for _ in ()).throw(RuntimeError("out of memory")))
        with pytest.raises(RuntimeError, match="out of memory"):
            engine.step()
    assert first.finish_reason == second.finish_reason == "abort" and not engine.has_unfinished()
    engine.check_integrity()
    log = log_of(engine)
    assert snapshot_of(log.state_now()) == engine.snapshot()
    again = engine.add_request(PROMPTS[0], GREEDY)
    record = engine.step()
    assert record.batch[0].start == 0, "blocks that were never written must not hit"
    finish(engine)
    assert len(again.output_token_ids) == 12


def test_stop_token_ends_the_sequence(engine: Engine) -> None:
    request = engine.add_request(PROMPTS[0], GREEDY)
    finish(engine)
    third = request.output_token_ids[2]
    again = engine.add_request(PROMPTS[0], SamplingParams(max_tokens=12, ignore_eos=True, stop_token_ids=[third]))
    finish(engine)
    assert again.output_token_ids == request.output_token_ids[: request.output_token_ids.index(third) + 1]
    assert again.finish_reason == "stop"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (EngineConfig(block_size=0), "block_size must be at least 1"),
        (EngineConfig(num_blocks=-3), "num_blocks must be at least 1"),
        (EngineConfig(block_size=64, max_model_len=32), "block_size 64 does not fit max_model_len 32"),
        (EngineConfig(max_model_len=10**6), "max_model_len must be between 2 .* and the model's"),
        (EngineConfig(strategy="contiguous", block_size=4, num_blocks=4, max_model_len=32), "reserves 32 slots"),
        (EngineConfig(enable_chunked_prefill=False, max_num_batched_tokens=8, max_model_len=32), "chunked prefill"),
        (EngineConfig(num_blocks=1 << 20, block_size=32), "over"),
    ],
)
def test_impossible_settings_are_refused(config: EngineConfig, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as error:
        Engine(tiny_llama(), config)
    assert "\n" not in str(error.value)


def test_contiguous_divides_the_pool_into_blocks_of_max_model_len() -> None:
    """16 blocks x 4 = 64 slots are 2 blocks of 32 for two sequences. A third one waits."""
    config = EngineConfig(strategy="contiguous", block_size=4, num_blocks=16, max_model_len=32)
    with Engine(tiny_llama(), config) as engine:
        assert (engine.config.block_size, engine.config.num_blocks) == (32, 2)
        for prompt in ([1, 2], [3, 4], [5, 6]):
            engine.add_request(prompt, GREEDY)
        record = engine.step()
        assert [b.seq_id for b in record.batch] == [0, 1]
        assert (record.memory.blocks_held, record.memory.tokens_held, record.memory.slots_wasted) == (2, 4, 60)


@pytest.mark.parametrize("dtype", get_args(KVCacheDtype))
def test_the_cache_has_its_dtype_and_counts_its_bytes(dtype: KVCacheDtype) -> None:
    """The bytes of a token agree in the formula, the header and the tensors."""
    with Engine(tiny_llama(), replace(SMALL, kv_cache_dtype=dtype)) as engine:
        request = engine.add_request(PROMPTS[0], GREEDY)
        finish(engine)
        header = log_of(engine).header
        assert header.kv_bytes_per_token == stored_bytes_per_token(engine.model.facts, dtype)
        assert engine._runner.kv_store.bytes == header.kv_bytes_per_token * 16 * 4
        assert len(request.output_token_ids) == 12


def test_captures_follow_the_capture_request(engine: Engine) -> None:
    engine.add_request(PROMPTS[0], GREEDY)
    assert not engine.step().has_capture
    engine.capture = CaptureRequest(layers=None, heads=None)
    record = engine.step()
    assert record.has_capture and engine.log is not None
    capture = engine.log.capture(record.index)
    assert capture is not None
    facts = engine.model.facts
    assert len(capture.layers) == facts.num_layers
    for layer in capture.layers:
        assert layer.q.shape == (1, facts.num_heads, facts.head_dim)
        assert layer.k.shape == layer.v.shape == (1, facts.num_kv_heads, facts.head_dim)
        (rows,) = layer.rows
        assert rows.weights.shape == (facts.num_heads, 1, len(PROMPTS[0]) + 1)
        assert abs(rows.weights.astype("float32").sum(-1) - 1).max() < 2e-3


def test_tokenization_and_detokenization_are_timed() -> None:
    with Engine(load_model("bundled"), EngineConfig(block_size=4, num_blocks=16)) as engine:
        engine.add_request("Who has seen the wind?", SamplingParams(max_tokens=2))
        engine.add_request([1, 2, 3], SamplingParams(max_tokens=1))
        step = engine.step().timing
        assert engine.log is not None
        text, ids = (engine.log.record(index).timing for index in (0, 1))
    assert text.tokenize > 0 == ids.tokenize
    assert 0 < step.detokenize < step.sample
