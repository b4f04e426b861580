"""Strategy `first_fit`: one contiguous reservation per sequence, and fragmentation."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.requests.request_spec import RequestError
from engine.trace.check import check
from engine.trace.holes import Hole, first_fit, holes_of
from engine.trace.operations import Allocate, Defer, Free, Reserve
from tests.unit.engine.runs import GREEDY, PROMPTS, ops_of, outputs_of, tiny_llama

REGION = EngineConfig(strategy="first_fit", block_size=4, num_blocks=12, max_model_len=48)


def tokens(count: int) -> SamplingParams:
    return SamplingParams(max_tokens=count, ignore_eos=True)


def test_first_fit_uses_the_first_large_enough_hole() -> None:
    holes = holes_of([1, 1, 0, 0, 0, 2, 0, 1, 0, 0, 0, 0], first_block=20)
    assert holes == [Hole(22, 3), Hole(26, 1), Hole(28, 4)]
    assert first_fit(holes, 1) == first_fit(holes, 3) == Hole(22, 3)
    assert first_fit(holes, 4) == Hole(28, 4)
    assert first_fit(holes, 5) is None
    assert holes_of([]) == [] and holes_of([0, 0]) == [Hole(0, 2)]


def test_a_reservation_covers_prompt_and_output_and_never_grows() -> None:
    """A prompt of 3 with 10 new tokens needs 3 + 10 - 1 = 12 slots, so 3 blocks of 4 are reserved until its end."""
    with Engine(tiny_llama(), REGION) as engine:
        engine.add_request([1, 2, 3], tokens(10))
        records = []
        while engine.has_unfinished():
            records.append(engine.step())
            engine.check_integrity()
        assert ops_of(records[0], Reserve) == [Reserve(seq_id=0, block_id=0, num_blocks=3, hole_blocks=12)]
        assert [op.block_id for op in ops_of(records[0], Allocate)] == [0, 1, 2]
        assert not any(ops_of(record, Allocate) for record in records[1:])
        assert [op.block_id for op in ops_of(records[-1], Free)] == [2, 1, 0]
        assert [record.memory.blocks_held for record in records] == [3] * 9 + [0]


def test_a_request_waits_while_free_blocks_are_fragmented(tmp_path: Path) -> None:
    """A, B, C and D get 2, 4, 2 and 4 of 12 blocks. When A and C finish, two holes of 2 blocks are free, and E needs 3.

    When B finishes, its 4 blocks and the adjacent holes merge to one hole of 8.
    """
    path = tmp_path / "run.kvtrace"
    with Engine(tiny_llama(), REGION, log_path=path) as engine:
        for count in (5, 13, 5, 14):  # 3 + count: 8, 16, 8 and 17 - 1 = 16 slots
            engine.add_request([7, 8, count], tokens(count))
        engine.step()
        engine.add_request([9, 9, 9], tokens(10))
        records = [engine.step() for _ in range(11)]
        defers = [op for record in records for op in ops_of(record, Defer)]
        assert defers[0] == Defer(seq_id=4, reason="no_free_blocks", needed=3, available=0)
        assert defers[-1] == Defer(seq_id=4, reason="fragmented", needed=3, available=2, num_free=4)
        assert engine.snapshot().block_tables.keys() == {1, 3}
        engine.step()  # the thirteenth step, in which B finishes
        reserved = ops_of(engine.step(), Reserve)
        assert reserved == [Reserve(seq_id=4, block_id=0, num_blocks=3, hole_blocks=8)]
        while engine.has_unfinished():
            engine.step()
            engine.check_integrity()
    assert list(check(path)) == []


def test_a_reservation_is_for_one_sequence_and_its_max_tokens() -> None:
    with Engine(tiny_llama(), REGION) as engine:
        with pytest.raises(RequestError, match="in its own piece, which 2 sequences"):
            engine.add_request([1, 2], SamplingParams(n=2, temperature=1.0, max_tokens=4))
        request = engine.add_request([1, 2], tokens(6))
        engine.adjust(request.request_id, tokens(8))  # a waiting request has no reservation
        engine.step()
        engine.adjust(request.request_id, tokens(7))
        with pytest.raises(RequestError, match="max_tokens can be at most 7"):
            engine.adjust(request.request_id, tokens(9))
        with pytest.raises(RequestError, match="do not fit: at most 45 new ones do"):
            engine.add_request([1, 2, 3], tokens(46))
        engine.add_request(PROMPTS[2], GREEDY)


def test_an_attention_window_releases_no_reserved_block(tmp_path: Path) -> None:
    path = tmp_path / "run.kvtrace"
    config = replace(REGION, attention_window=4, attention_sinks=2)
    with Engine(tiny_llama(), config, log_path=path) as engine:
        engine.add_request(PROMPTS[1], GREEDY)
        while engine.has_unfinished():
            engine.step()
            engine.check_integrity()
    assert list(check(path)) == []
    paged = EngineConfig(block_size=4, num_blocks=64, max_model_len=48, attention_window=4, attention_sinks=2)
    assert outputs_of(replace(config, num_blocks=20)) == outputs_of(paged)
