"""Sequences that hold blocks without running do not block others, and a deadlock is an error."""

import pytest
from msgspec.structs import replace

from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.scheduling.progress import NoProgressError
from engine.scheduling.scheduler import Scheduler
from engine.trace.operations import Preempt, TransferFailed
from engine.trace.snapshot import snapshot_of
from tests.unit.connector.pair import PLAIN, Pair, of
from tests.unit.engine.runs import log_of, tiny_llama

# 9 blocks of 4, with 4 prompt tokens per step
TIGHT = EngineConfig(block_size=4, num_blocks=9, max_model_len=36, max_num_batched_tokens=4)
SETTINGS = {
    "prefix cache": TIGHT,
    "no prefix cache": replace(TIGHT, enable_prefix_caching=False),
    "swap": replace(TIGHT, preemption_mode="swap"),
    "priority": replace(TIGHT, scheduling_policy="priority"),
    "window": replace(TIGHT, attention_window=24, attention_sinks=4),
}
RUNNING, ARRIVING, LONG = [10 + i for i in range(33)], [50 + i for i in range(16)], [50 + i for i in range(32)]
TO_THE_END = SamplingParams(max_tokens=3, ignore_eos=True)
BEAMS = SamplingParams(max_tokens=8, use_beam_search=True, beam_width=3, n=3, ignore_eos=True)


def baseline(config: EngineConfig, prompt: list[int], sampling: SamplingParams) -> list[list[int]]:
    with Engine(tiny_llama(), replace(config, num_blocks=40), keep_log=False) as engine:
        request = engine.add_request(prompt, sampling)
        while engine.has_unfinished():
            engine.step()
        return [output.output_token_ids for output in request.outputs]


def run(pair: Pair, most: int = 400) -> None:
    for _ in range(most):
        if not pair.turn(pair.decode):
            return
    raise AssertionError(f"unfinished after {most} steps")


@pytest.mark.parametrize("name", SETTINGS)
def test_received_blocks_are_dropped_for_running_sequences(name: str) -> None:
    """The running prompt needs all 9 blocks and every token of a step. A received sequence holds 4 blocks."""
    config = SETTINGS[name]
    pair = Pair(tiny_llama(), replace(config, num_blocks=40), config)
    running = pair.decode.add_request(RUNNING, TO_THE_END)
    pair.turn(pair.decode)
    arrived = pair.pass_on(ARRIVING, TO_THE_END)
    run(pair)
    assert [running.output_token_ids, arrived.output_token_ids] == [
        *baseline(config, RUNNING, TO_THE_END),
        *baseline(config, ARRIVING, TO_THE_END),
    ]
    assert running.seq_id not in [op.seq_id for op in of(Preempt, pair.ops["decode"])], (
        "the running sequence is not preempted"
    )
    assert name == "window" or [op.reason for op in of(TransferFailed, pair.ops["decode"])] == ["no_room"]


@pytest.mark.parametrize("mode", ["recompute", "swap"])
def test_received_blocks_are_dropped_for_beams_that_wait_for_each_other(mode: str) -> None:
    """Three beams of up to 13 tokens take every token of a step. A received sequence holds 8 of 12 blocks."""
    config = replace(TIGHT, preemption_mode=mode, max_num_batched_tokens=3, num_blocks=12)
    pair = Pair(tiny_llama(), PLAIN, config)
    beams = pair.decode.add_request(RUNNING[:6], BEAMS)
    pair.turn(pair.decode)
    arrived = pair.pass_on(LONG, TO_THE_END)
    run(pair)
    assert [output.output_token_ids for output in beams.outputs] == baseline(config, RUNNING[:6], BEAMS)
    assert [arrived.output_token_ids] == baseline(config, LONG, TO_THE_END)


def test_a_deadlock_is_an_error_that_names_the_holders_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(tiny_llama(), PLAIN, TIGHT)
    running = pair.decode.add_request(RUNNING, TO_THE_END)
    pair.turn(pair.decode)
    arrived = pair.pass_on(ARRIVING, TO_THE_END)
    with monkeypatch.context() as patch:
        patch.setattr(Scheduler, "_free_last_arrived", lambda *_: False)
        with pytest.raises(NoProgressError, match=r"sequence 1 \(waiting\) holds 4 blocks") as found:
            run(pair)
    assert "sequence 0 (" in str(found.value)
    assert running.finish_reason == "abort" and running.output_token_ids == []
    assert pair.decode.snapshot() == snapshot_of(log_of(pair.decode).state_now())
    run(pair)
    assert [arrived.output_token_ids] == baseline(TIGHT, ARRIVING, TO_THE_END), (
        "the received sequence is computed again"
    )
