"""Failed steps withdraw their unwritten blocks from every sequence that relies on them."""

from pathlib import Path
from typing import Any

import pytest

from engine.engine import Engine
from engine.trace.check import check
from engine.trace.operations import Await, Finish, TransferFailed
from engine.trace.snapshot import snapshot_of
from tests.unit.connector.pair import GREEDY, PLAIN, PROMPTS, Pair, baseline, of
from tests.unit.engine.runs import log_of, tiny_llama


def fail_a_step(engine: Engine, where: str) -> None:
    """Fail a step before or after blocks are moved, or after the forward pass."""
    owner: Any = {"move_blocks": engine._runner, "execute": engine._runner, "sample": engine._outputs.sampler}[where]

    def fail(*_: Any) -> None:
        raise MemoryError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, where, fail)
        with pytest.raises(MemoryError):
            engine.step()
    engine.check_integrity()
    assert engine.snapshot() == snapshot_of(log_of(engine).state_now())


@pytest.mark.parametrize("where", ["move_blocks", "execute", "sample"])
@pytest.mark.parametrize("policy", ["recompute", "fail"])
def test_a_transfer_that_relies_on_a_failed_step_is_recomputed_or_fails(
    where: str, policy: str, tmp_path: Path
) -> None:
    """The first prompt is computed in the failing step. The second awaits a transfer and shares its 5 full blocks."""
    pair = Pair(tiny_llama(), PLAIN, logs=tmp_path, policy=policy)
    filling = pair.decode.add_request(PROMPTS[0], GREEDY)
    awaiting = pair.pass_on(PROMPTS[1])
    fail_a_step(pair.decode, where)
    record = log_of(pair.decode).record(len(log_of(pair.decode)) - 1)
    (began,) = [op for op in record.ops if isinstance(op, Await)]
    assert began.num_cached_tokens == 20 and filling.finish_reason == "abort"
    pair.run()
    was_filled = where == "sample"
    assert [op.reason for op in record.ops if isinstance(op, TransferFailed)] == ([] if was_filled else ["step_failed"])
    expected = baseline(PLAIN, [PROMPTS[1]])[0] if was_filled or policy == "recompute" else []
    assert awaiting.output_token_ids == expected
    assert pair.held() == (0, 0), "the sender is notified"
    assert len(of(Finish, pair.ops["prefill"])) == 1
    pair.prefill.close()
    pair.decode.close()
    for path in tmp_path.iterdir():
        assert [str(finding) for finding in check(path)] == []


def test_received_content_that_cannot_be_loaded_is_computed(tmp_path: Path) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError("no room")

    pair = Pair(tiny_llama(), PLAIN, logs=tmp_path)
    request = pair.pass_on(PROMPTS[0])
    pair.turn(pair.decode)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair.decode.kv_caches[0], "write", fail)
        pair.turn(pair.decode)
    pair.run(pair.decode)
    assert [(op.reason, op.detail) for op in of(TransferFailed, pair.ops["decode"])] == [
        ("lost", "MemoryError: no room")
    ]
    assert request.output_token_ids == baseline(PLAIN, [PROMPTS[0]])[0] and pair.held()[1] == 0


@pytest.mark.parametrize("where", ["move_blocks", "execute", "sample"])
def test_an_engine_continues_after_a_failed_step(where: str) -> None:
    """The failed batch leaves no blocks, and later requests hit content that was computed before."""
    with Engine(tiny_llama(), PLAIN) as engine:
        done = engine.add_request(PROMPTS[0], GREEDY)
        while engine.has_unfinished():
            engine.step()
        failed = [engine.add_request(prompt, GREEDY) for prompt in PROMPTS]
        fail_a_step(engine, where)
        assert {request.finish_reason for request in failed} == {"abort"} and not engine.has_unfinished()
        assert engine.snapshot().memory.blocks_held == 0
        again = [engine.add_request(prompt, GREEDY) for prompt in PROMPTS]
        while engine.has_unfinished():
            engine.step()
        assert [done.output_token_ids, *(request.output_token_ids for request in again)] == baseline(
            PLAIN, [PROMPTS[0], *PROMPTS]
        )
