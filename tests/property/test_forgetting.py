"""KV cache compression works with chunks, preemption, forks, windows, quantized caches, captures and failed steps."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from engine.cache.forget_settings import PolicyName
from engine.config import ConfigError, EngineConfig, SamplingParams
from engine.connector.base import KVConnector
from engine.engine import Engine
from engine.lab.change import KeepChange
from engine.lab.rerun import Rerun
from engine.model.capture import CaptureRequest
from engine.model.forgetting.policies import POLICIES
from engine.model.loaded import LoadedModel
from engine.model.loader import from_module
from engine.requests.request_spec import RequestError
from engine.trace.check import check
from engine.trace.log import TraceReader
from engine.trace.operations import Forget, Fork, Preempt, Release
from engine.trace.records import StepRecord
from engine.trace.snapshot import snapshot_of
from tests.load.seams import fail_once
from tests.parity.harness import eager_forward
from tests.tiny_models import tiny_model, tiny_tokenizer
from tests.unit.engine.runs import log_of, tiny_llama

POISON = 1e4  # not NaN, since padding reads empty slots with weight 0
POLICY_NAMES = list(POLICIES)
BASE = EngineConfig(
    block_size=4, num_blocks=40, max_model_len=48, forget_budget=9, forget_sinks=1, forget_recent=2, forget_pool=3
)
GREEDY = SamplingParams(max_tokens=14, ignore_eos=True)
SAMPLES = SamplingParams(max_tokens=10, ignore_eos=True, n=2, temperature=1.0, seed=7)
BEAMS = SamplingParams(max_tokens=8, ignore_eos=True, use_beam_search=True, beam_width=2, n=2)


def prompts_of(rng: random.Random, count: int = 3) -> list[list[int]]:
    return [[rng.randint(3, 120) for _ in range(rng.randint(5, 24))] for _ in range(count)]


def run_all(engine: Engine, prompts: list[list[int]], sampling: SamplingParams = GREEDY) -> list[StepRecord]:
    """Run to the end, and poison freed blocks after each step, so that a read of one changes the output."""
    for number, prompt in enumerate(prompts):
        engine.add_request(prompt, sampling, f"r{number}")
    records = []
    while engine.has_unfinished():
        records.append(engine.step())
        engine.check_integrity()
        assert engine.snapshot() == snapshot_of(log_of(engine).state_now())
        free = [i for i, count in enumerate(engine.snapshot().ref_counts) if not count]
        for group in engine.block_groups:
            of_group = [i - group.first_block for i in free if 0 <= i - group.first_block < group.num_blocks]
            for pool in engine._runner.kv_store.pools(group.layers):
                if pool.is_floating_point():
                    pool[of_group] = POISON
    return records


def texts(engine: Engine) -> dict[str, list[list[int]]]:
    """Return the token ids of each request's sequences, in order of their start."""
    found: dict[str, list[list[int]]] = {}
    for sequence in log_of(engine).state_now().sequences.values():
        found.setdefault(sequence.request_id, []).append(sequence.token_ids)
    return found


def forgotten_of(engine: Engine, request_id: str) -> list[tuple[int, int, list[list[int]]]]:
    sequences = log_of(engine).state_now().sequences.values()
    return [(op.layer, op.at, op.positions) for s in sequences if s.request_id == request_id for op in s.forgotten]


@pytest.mark.parametrize("every", [0, 1, 3])
@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_preemption_and_chunks_do_not_change_tokens_or_forgetting(
    policy: PolicyName, every: int, tmp_path: Path
) -> None:
    """A sequence that is recomputed in any chunks, or swapped, has the same text and the same forgotten tokens."""
    prompts = prompts_of(random.Random(1))
    roomy = replace(BASE, forget_policy=policy, forget_every=every)
    tight = replace(roomy, num_blocks=13, max_num_batched_tokens=8, max_num_seqs=3)
    with Engine(tiny_llama(), roomy) as plain:
        run_all(plain, prompts)
        generated, forgotten = texts(plain), [forgotten_of(plain, f"r{i}") for i in range(3)]
    assert any(forgotten)
    for mode in ("recompute", "swap"):
        path = tmp_path / f"{mode}.kvtrace"
        with Engine(tiny_llama(), replace(tight, preemption_mode=mode), log_path=path) as engine:
            records = run_all(engine, prompts)
            preempts = any(isinstance(op, Preempt) for record in records for op in record.ops)
            assert preempts or (policy, every) == ("window", 1)  # which frees blocks at once and has room
            assert texts(engine) == generated
            assert [forgotten_of(engine, f"r{i}") for i in range(3)] == forgotten
        assert not list(check(path))


@pytest.mark.parametrize("sampling", [SAMPLES, BEAMS], ids=["samples", "beams"])
@pytest.mark.parametrize("policy", ["h2o", "snapkv", "expected_attention"])  # their memory of queries is copied
def test_preemption_of_forks_does_not_change_tokens_or_forgetting(
    policy: PolicyName, sampling: SamplingParams, tmp_path: Path
) -> None:
    prompts = prompts_of(random.Random(5))
    roomy = replace(BASE, forget_policy=policy, num_blocks=80)
    tight = replace(roomy, num_blocks=16 if sampling is BEAMS else 12, max_num_batched_tokens=32, max_num_seqs=6)
    with Engine(tiny_llama(), roomy) as plain:
        run_all(plain, prompts, sampling)
        generated, forgotten = texts(plain), [forgotten_of(plain, f"r{i}") for i in range(3)]
    for mode in ("recompute", "swap"):
        path = tmp_path / f"{mode}.kvtrace"
        with Engine(tiny_llama(), replace(tight, preemption_mode=mode), log_path=path) as engine:
            records = run_all(engine, prompts, sampling)
            ops = {type(op) for record in records for op in record.ops}
            assert {Preempt, Fork, Forget} <= ops
            assert (texts(engine), [forgotten_of(engine, f"r{i}") for i in range(3)]) == (generated, forgotten)
        assert not list(check(path))


@pytest.mark.parametrize("policy", POLICY_NAMES)
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLES, BEAMS], ids=["greedy", "samples", "beams"])
def test_a_budget_as_large_as_the_context_forgets_no_token(policy: PolicyName, sampling: SamplingParams) -> None:
    prompts = prompts_of(random.Random(4))
    config = replace(BASE, forget_budget=48, forget_policy=policy)
    off = {name: None for name in EngineConfig.__struct_fields__ if name.startswith("forget_")}
    without = replace(BASE, **off, enable_prefix_caching=False, enforce_eager=True)
    with Engine(tiny_llama(), config) as engine, Engine(tiny_llama(), without) as plain:
        assert [r.outputs for r in run_all(engine, prompts, sampling)] == [
            r.outputs for r in run_all(plain, prompts, sampling)
        ]


@pytest.mark.parametrize("sampling", [SAMPLES, BEAMS], ids=["samples", "beams"])
@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_a_fork_inherits_the_forgotten_tokens_of_its_parent(
    policy: PolicyName, sampling: SamplingParams, tmp_path: Path
) -> None:
    path = tmp_path / "forks.kvtrace"
    with Engine(tiny_llama(), replace(BASE, forget_policy=policy), log_path=path) as engine:
        records = run_all(engine, prompts_of(random.Random(2)), sampling)
        assert any(isinstance(op, Fork) for record in records for op in record.ops)
    assert not list(check(path)), "each sequence must keep the budget, including tokens that its parent has forgotten"


def two_kinds_of_layers() -> LoadedModel:
    return from_module(tiny_model("gemma3"), tiny_tokenizer(), "gemma3")


@pytest.mark.parametrize("make", [tiny_llama, two_kinds_of_layers], ids=["llama", "windows"])
@pytest.mark.parametrize("policy", ["h2o", "tova", "snapkv", "key_norm", "random"])
def test_captured_weights_are_those_of_a_forward_pass_with_the_logged_mask(
    policy: PolicyName, make: Any, tmp_path: Path
) -> None:
    """The log determines the mask of each query, and a pass over all tokens with it gives the same rows. A capture
    changes neither tokens nor decisions.
    """
    prompt, path = prompts_of(random.Random(9), 1)[0] + [7] * 12, tmp_path / "captured.kvtrace"
    config = replace(BASE, forget_policy=policy, forget_every=2, max_num_batched_tokens=9)
    capture = CaptureRequest(budget_bytes=1 << 30, dtype="float32")
    with Engine(make(), config) as uncaptured:
        plain = [(r.ops, r.outputs) for r in run_all(uncaptured, [prompt])]
    with Engine(make(), config, log_path=path, capture=capture) as engine:
        assert [(r.ops, r.outputs) for r in run_all(engine, [prompt])] == plain
        num_computed = len(prompt) + 13  # its last token is never computed
        full = engine.recompute_attention(0, None, None, num_computed).layers
    assert not list(check(path))
    with TraceReader(path) as log:
        for index in (i for i in range(len(log)) if log.record(i).has_capture):
            captured, record = log.capture(index), log.record(index)
            assert captured is not None
            for layer in captured.layers:
                [rows] = layer.rows
                end, first = rows.key_start + rows.weights.shape[2], rows.query_start
                again = (
                    full[layer.layer].rows[0].weights[:, first : first + rows.weights.shape[1], rows.key_start : end]
                )
                assert np.allclose(rows.weights, again, atol=1e-5)
            forgot = [op for op in record.ops if isinstance(op, Forget)]
            for op, scored in zip(forgot, captured.scores, strict=True):
                assert op.layer == scored.layer
                found = [scored.scores[head, positions].tolist() for head, positions in enumerate(op.positions)]
                assert found == [pytest.approx(scores, rel=1e-5) for scores in op.scores]


def test_the_window_policy_is_equivalent_to_an_attention_window() -> None:
    """Both implement one mask, in which a query sees the budget and itself after each decision."""
    prompts = prompts_of(random.Random(6))
    off = {name: None for name in EngineConfig.__struct_fields__ if name.startswith("forget_")}
    windowed = replace(BASE, **off, attention_window=7, attention_sinks=3, enforce_eager=True, max_num_batched_tokens=1)
    prompts = [prompt[:9] for prompt in prompts]  # the window hides nothing within the prompt
    forgets = replace(BASE, forget_policy="window", forget_budget=9, forget_sinks=3)
    with Engine(tiny_llama(), windowed) as one, Engine(tiny_llama(), forgets) as other:
        run_all(one, prompts)
        records = run_all(other, prompts)
        assert texts(one) == texts(other)
        released = [op for record in records for op in record.ops if isinstance(op, Release)]
        assert released, "every head forgets the same tokens, so blocks must be released"


def test_a_block_is_freed_when_every_head_has_forgotten_its_tokens(tmp_path: Path) -> None:
    """Given one KV head and equal choices in every layer, blocks become entirely masked."""
    model, path = from_module(tiny_model("llama_mqa"), tiny_tokenizer(), "mqa"), tmp_path / "freed.kvtrace"
    config = replace(BASE, forget_policy="key_norm", forget_budget=3, forget_every=1)
    with Engine(model, config, log_path=path) as engine:
        records = run_all(engine, [list(range(20, 40))])
        released = [op for record in records for op in record.ops if isinstance(op, Release)]
        assert released and all(op.reason == "forgotten" for op in released)
        heads = {(layer, at) for layer, at, _ in forgotten_of(engine, "r0")}
        assert len({layer for layer, _ in heads}) == 3
    assert not list(check(path))


@pytest.mark.parametrize("dtype", ["int8", "fp8", "bfloat16"])
def test_a_rounded_cache_keeps_the_budget(dtype: Any, tmp_path: Path) -> None:
    path = tmp_path / "rounded.kvtrace"
    config = replace(BASE, forget_policy="expected_attention", kv_cache_dtype=dtype, num_blocks=15)
    capture = CaptureRequest(budget_bytes=1 << 30)
    with Engine(tiny_llama(), config, log_path=path, capture=capture) as engine:
        run_all(engine, prompts_of(random.Random(1)))
    assert not list(check(path))


@pytest.mark.parametrize("seed", range(6))
def test_aborts_and_failed_steps_leave_a_valid_log(seed: int, tmp_path: Path) -> None:
    rng, path = random.Random(seed), tmp_path / "failed.kvtrace"
    config = replace(
        BASE, forget_policy=rng.choice(POLICY_NAMES), num_blocks=16, preemption_mode=rng.choice(["recompute", "swap"])
    )
    with Engine(tiny_llama(), config, log_path=path) as engine:
        for number, prompt in enumerate(prompts_of(rng, 6)):
            engine.add_request(prompt, rng.choice([GREEDY, SAMPLES, BEAMS]), f"r{number}")
        while engine.has_unfinished():
            if rng.random() < 0.1:
                engine.abort(f"r{rng.randrange(6)}")
            elif rng.random() < 0.1:
                fail_once(engine, rng.choice(["move_blocks", "execute", "sample"]))
            try:
                if engine.has_unfinished():
                    engine.step()
            except MemoryError:
                continue
            engine.check_integrity()
        assert engine._forgetting is not None and not engine._forgetting._memories
    assert not list(check(path))


def test_a_rerun_is_equal_and_pinned_tokens_are_not_forgotten(tmp_path: Path) -> None:
    prompts, config = prompts_of(random.Random(3)), replace(BASE, forget_policy="tova")
    path, forked = tmp_path / "first.kvtrace", tmp_path / "forked.kvtrace"
    with Engine(tiny_llama(), config, log_path=path) as engine:
        run_all(engine, prompts)
    with TraceReader(path) as log:
        index, op = next(
            (i, op) for i in range(len(log)) for op in log.record(i).ops if isinstance(op, Forget) and any(op.positions)
        )
        position = next(positions[0] for positions in op.positions if positions)
        with Engine(tiny_llama(), config, log_path=forked) as again:
            Rerun(again, log, index, KeepChange(seq_id=op.seq_id, position=position), follow=True).finish()
            sequence = log_of(again).state_now().sequences[op.seq_id]
            assert sequence.pinned == [position]
            assert not any(position in positions for other in sequence.forgotten for positions in other.positions)
    assert not list(check(forked))
    for source in (path, forked):
        with TraceReader(source) as log, Engine(tiny_llama(), config) as again:
            rerun = Rerun(again, log, len(log), None, follow=False)
            rerun.finish()
            assert rerun.is_checked


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLES, BEAMS], ids=["greedy", "samples", "beams"])
def test_the_comparison_with_the_full_cache_uses_the_same_text(sampling: SamplingParams) -> None:
    """A forward pass over the text gives the full cache's distribution that is logged with each output."""
    config = replace(BASE, forget_policy="random", forget_compare=True, num_blocks=16, max_num_batched_tokens=9)
    plain = tiny_model("llama")
    with Engine(tiny_llama(), config) as engine:
        records = run_all(engine, prompts_of(random.Random(1)), sampling)
        num_compared, changed = 0, 0.0
        for record in records:
            sequences = log_of(engine).state_at(record.index).sequences
            for output in record.outputs:
                if output.full is None:
                    continue
                text = sequences[output.seq_id].token_ids[:-1]
                full = eager_forward(plain, text).logits[0, -1].double().log_softmax(-1)
                assert output.full.token_id == int(full.argmax())
                assert output.full.logprob == pytest.approx(full[output.token_id].item(), abs=1e-4)
                num_compared, changed = num_compared + 1, changed + output.full.divergence
        assert num_compared > 10 and changed > 0
    with Engine(tiny_llama(), replace(config, forget_budget=48)) as engine:
        for record in run_all(engine, prompts_of(random.Random(1)), sampling):
            assert all(o.full is None or o.full.divergence < 1e-9 for o in record.outputs)


def test_impossible_pins_are_refused() -> None:
    with Engine(tiny_llama(), replace(BASE, forget_policy="tova", forget_budget=4)) as engine:
        engine.add_request(list(range(20, 40)), GREEDY)
        engine.step()
        op = next(op for op in log_of(engine).record(1).ops if isinstance(op, Forget))
        with pytest.raises(RequestError, match="has already forgotten the token at position"):
            engine.keep(0, op.positions[0][0])
        with pytest.raises(RequestError, match="no token at position 99"):
            engine.keep(0, 99)
        engine.keep(0, 20)
        with pytest.raises(RequestError, match="already pinned"):
            engine.keep(0, 20)
        with pytest.raises(RequestError, match="no room for another"):
            engine.keep(0, 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strategy": "none"}, "strategy"),
        ({"attention_window": 8}, "attention_window"),
        ({"prefill": 1, "decode": 1}, "prefill, decode and mixed"),
        ({"speculative_config": '{"method": "ngram", "num_speculative_tokens": 2}'}, "speculative_config"),
        ({"forget_budget": 2}, r"at least forget_sinks \+ forget_recent \(3\), not 2"),
        ({"forget_policy": "snapkv", "forget_pool": 4}, "an odd forget_pool"),
        ({"forget_policy": None}, "forget_budget has an effect only with forget_policy"),
    ],
)
def test_features_that_conflict_with_forgetting_are_refused(settings: dict[str, Any], message: str) -> None:
    from engine.setup.resolve import resolve

    with pytest.raises(ConfigError, match=message):
        resolve(replace(BASE, **{"forget_policy": "h2o", **settings}), 256)


def test_a_store_outside_the_pool_is_refused() -> None:
    with pytest.raises(ConfigError, match="do not support forget_policy"):
        Engine(tiny_llama(), replace(BASE, forget_policy="h2o"), connector=KVConnector())
