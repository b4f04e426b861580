"""Preemption in a pool that is far too small for its requests."""

from collections import Counter

import pytest
from msgspec.structs import replace

from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.trace.operations import Admit, Drop, Preempt, Sample, SwapIn, SwapOut
from engine.trace.records import StepRecord
from engine.trace.snapshot import snapshot_of
from tests.unit.engine.runs import log_of, ops_of, tiny_llama

PROMPTS = [[10 + i, 20 + i, 30, 31, 32, 40 + i, 50 + i] for i in range(8)]  # 7 tokens each, without a common prefix
OUTPUTS = SamplingParams(max_tokens=24, ignore_eos=True)
ROOMY = EngineConfig(block_size=4, num_blocks=128, max_model_len=32)
TIGHT = replace(ROOMY, num_blocks=12)  # one and a half sequences of 7 + 24 - 1 = 30 slots or 8 blocks


def run(config: EngineConfig, check: bool = False) -> tuple[list[list[int]], list[StepRecord]]:
    records = []
    with Engine(tiny_llama(), config) as engine:
        requests = [engine.add_request(p, OUTPUTS, priority=i % 3) for i, p in enumerate(PROMPTS)]
        while engine.has_unfinished():
            records.append(engine.step())
            engine.check_integrity()
            if check:
                log = log_of(engine)
                assert snapshot_of(log.state_now()) == engine.snapshot()
        assert engine.snapshot().memory.blocks_held == engine.snapshot().memory.swap_blocks_held == 0
        return [r.output_token_ids for r in requests], records


@pytest.fixture(scope="module")
def expected() -> list[list[int]]:
    return run(ROOMY)[0]


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize(("mode", "swap_space"), [("recompute", None), ("swap", None), ("swap", 4), ("swap", 0)])
def test_preemption_changes_no_output_and_repeats_no_token(
    policy, caching, mode, swap_space, expected: list[list[int]]
) -> None:
    """Given 4 CPU blocks some swaps of 8 requests have no room, and with 0 CPU blocks none has."""
    config = replace(
        TIGHT, scheduling_policy=policy, enable_prefix_caching=caching, preemption_mode=mode, swap_space=swap_space
    )
    outputs, records = run(config, check=caching and policy == "fcfs")
    assert outputs == expected
    sampled = [(op.seq_id, op.token_id) for r in records for op in ops_of(r, Sample)]
    assert Counter(seq_id for seq_id, _ in sampled) == dict.fromkeys(range(8), 24)
    assert [[t for i, t in sampled if i == seq_id] for seq_id in range(8)] == expected
    preemptions = [op for r in records for op in ops_of(r, Preempt)]
    assert len(preemptions) > 8, "otherwise the pool is not small enough"
    assert {op.reason for op in preemptions} == {"last_admitted" if policy == "fcfs" else "worst_priority"}
    modes = {op.mode for op in preemptions}
    assert modes == {"recompute"} if mode == "recompute" or swap_space == 0 else "swap" in modes
    if swap_space == 4:
        assert any(op.swap_refused for op in preemptions if op.mode == "recompute")


def test_a_swap_moves_the_computed_blocks_and_logs_their_bytes() -> None:
    """ceil(computed / 4) blocks are swapped out and in, and nothing is computed again."""
    _, records = run(replace(TIGHT, preemption_mode="swap", swap_space=64))
    bytes_per_block = 4 * 3 * 2 * (8 + 8) * 4  # slots * layers * KV heads * (D + Dv) * float32
    swapped_out: dict[int, list[SwapOut]] = {}
    computed: dict[int, int] = {}
    for op in [op for record in records for op in record.ops]:
        if isinstance(op, SwapOut):
            swapped_out.setdefault(op.seq_id, []).append(op)
        elif isinstance(op, Preempt):
            assert op.num_bytes == len(swapped_out[op.seq_id]) * bytes_per_block
            assert len(swapped_out[op.seq_id]) == -(-op.num_computed_tokens // 4)
            assert (op.num_recompute_tokens, op.num_kept_tokens) == (0, 0)
            computed[op.seq_id] = op.num_computed_tokens
        elif isinstance(op, Admit) and op.resumed:
            assert (op.num_cached_tokens, op.num_swapped_tokens) == (0, computed[op.seq_id])
        elif isinstance(op, SwapIn):
            out = swapped_out[op.seq_id].pop(0)
            assert (out.logical, out.cpu_block_id, out.num_bytes) == (op.logical, op.cpu_block_id, op.num_bytes)
    assert computed and not any(swapped_out.values())
    assert sum(len(entry.token_ids) for record in records for entry in record.batch) == 8 * 30


def test_a_preemption_logs_cached_and_recomputed_tokens() -> None:
    """Tokens of a preempted sequence that are no longer cached are recomputed."""
    _, records = run(TIGHT)
    preempt = next(op for r in records for op in ops_of(r, Preempt))
    assert preempt.num_computed_tokens == preempt.num_kept_tokens + preempt.num_recompute_tokens
    assert preempt.num_kept_tokens % 4 == 0 and preempt.num_blocks == -(-preempt.num_computed_tokens // 4)
    _, without = run(replace(TIGHT, enable_prefix_caching=False))
    preempt = next(op for r in without for op in ops_of(r, Preempt))
    assert preempt.num_recompute_tokens == preempt.num_computed_tokens


def test_aborting_a_swapped_out_request_frees_its_cpu_blocks() -> None:
    with Engine(tiny_llama(), replace(TIGHT, preemption_mode="swap")) as engine:
        for i, prompt in enumerate(PROMPTS):
            engine.add_request(prompt, OUTPUTS, request_id=str(i))
        swapped: list[SwapOut] = []
        while not swapped:
            swapped = ops_of(engine.step(), SwapOut)
        assert engine.abort(str(swapped[0].seq_id))
        log = log_of(engine)
        drops = ops_of(log.record(len(log) - 1), Drop)
        assert [op.cpu_block_id for op in drops] == [op.cpu_block_id for op in swapped if op.seq_id == drops[0].seq_id]
        engine.check_integrity()
        assert snapshot_of(log.state_now()) == engine.snapshot()


@pytest.mark.parametrize("dtype", ["float16", "int8", "int4"])
def test_a_swap_restores_the_stored_values_exactly(dtype) -> None:
    """Quantization loses precision, so only identical stored values give the same output."""
    config = replace(ROOMY, kv_cache_dtype=dtype, enable_prefix_caching=False)
    roomy, _ = run(config)
    outputs, records = run(replace(config, num_blocks=12, preemption_mode="swap", swap_space=64))
    assert {op.mode for r in records for op in ops_of(r, Preempt)} == {"swap"}
    assert outputs == roomy
