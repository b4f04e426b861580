"""The recorder logs the calls of vLLM, and ends the log at invalid calls."""

import errno
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.observe.vllm_recorder import WatchError, watched
from engine.observe.vllm_recorder.recorder import Recorder
from engine.observe.vllm_recorder.request import public_name
from engine.observe.vllm_recorder.terms import Settings
from engine.trace.check import check
from engine.trace.log import TraceWriter
from engine.trace.operations import Evict, Finish, Free, Op, Release, Requeue
from engine.trace.records import Watched
from tests.golden.make import HEADER

SETTINGS = Settings(
    block_size=4,
    num_blocks=6,
    kv_bytes_per_token=HEADER.kv_bytes_per_token,
    max_num_seqs=2,
    max_num_batched_tokens=16,
    enable_prefix_caching=False,
    enable_chunked_prefill=True,
    scheduler_reserve_full_isl=True,
    scheduling_policy="fcfs",
)


def log_at(path: Path) -> TraceWriter:
    """Open a log of six blocks of four slots."""
    from msgspec.structs import replace

    engine = {**HEADER.engine, "block_size": 4, "num_blocks": 6, "swap_space": 0}
    return TraceWriter(replace(HEADER, engine=engine, watched=Watched(source="another", unknown=["arrays"])), path)


def request(name: str, num_tokens: int) -> Any:
    """Return a request with the fields of vLLM's class that are read."""
    return SimpleNamespace(
        request_id=name,
        prompt_token_ids=list(range(num_tokens)),
        all_token_ids=list(range(num_tokens)),
        block_hashes=[],
        max_tokens=3,
        priority=0,
        cache_salt=None,
        sampling_params=SimpleNamespace(temperature=0.0, seed=None),
        num_computed_tokens=0,
        skip_reading_prefix_cache=False,
        stop_reason=None,
    )


def record_request(recorder: Recorder, one: Any) -> None:
    """Record a request with two blocks, a prefill, a token and the end."""
    call = recorder.call
    call(recorder.arrived, one)
    call(recorder.scheduling)
    call(recorder.looked_up, one, [], 0)
    call(recorder.allocating, one)
    call(recorder.allocated, [0, 1])
    call(recorder.end_allocation, one, 6, True)
    call(recorder.scheduled, {one.request_id: 6})
    call(recorder.computed)
    one.all_token_ids.append(7)
    call(recorder.freeing, one, True)
    call(recorder.freed_blocks, [1, 0])
    call(recorder.freed, one, "FINISHED_LENGTH_CAPPED")
    call(recorder.updated)


def ops_of(log: TraceWriter) -> list[Op]:
    return [op for index in range(len(log)) for op in log.record(index).ops]


def test_blocks_without_a_hash_are_freed_together(tmp_path: Path) -> None:
    """The last block of the table is allocated next. If blocks were freed separately, it would be the first one."""
    recorder = Recorder(log_at(tmp_path / "run.kvtrace"), SETTINGS)
    record_request(recorder, request("0-0123abcd", 6))
    assert recorder.ended is None
    ops = ops_of(recorder.log)
    assert [op.block_id for op in ops if isinstance(op, Free)] == [1, 0]
    assert [op.block_ids for op in ops if isinstance(op, Requeue)] == [[1, 0]]
    assert recorder.log.state_now().free_queues == [[1, 0, 2, 3, 4, 5]]
    assert [op.reason for op in ops if isinstance(op, Finish)] == ["length"]
    assert list(check(tmp_path / "run.kvtrace")) == []


def test_a_sequence_aborted_during_its_step_counts_as_computed(tmp_path: Path) -> None:
    """vLLM processes aborts between the schedule and the output of a step. Its one record has no sample for it."""
    recorder = Recorder(log_at(tmp_path / "run.kvtrace"), SETTINGS)
    one, two, call = request("a", 4), request("b", 4), recorder.call
    for each in (one, two):
        call(recorder.arrived, each)
    call(recorder.scheduling)
    for each, block_id in ((one, 0), (two, 1)):
        call(recorder.allocating, each)
        call(recorder.allocated, [block_id])
        call(recorder.end_allocation, each, 4, True)
    call(recorder.scheduled, {"a": 4, "b": 4})
    call(recorder.freeing, one, True)
    call(recorder.freed_blocks, [0])
    call(recorder.freed, one, "FINISHED_ABORTED")
    call(recorder.changed_between_steps)
    call(recorder.computed)
    two.all_token_ids.append(7)
    call(recorder.updated)
    assert recorder.ended is None
    assert [recorder.log.record(index).kind for index in range(len(recorder.log))] == ["submit", "submit", "step"]
    record = recorder.log.record(2)
    assert [(entry.seq_id, entry.samples) for entry in record.batch] == [(0, False), (1, True)]
    assert [op.reason for op in record.ops if isinstance(op, Finish)] == ["abort"]
    assert list(check(tmp_path / "run.kvtrace")) == []


def test_blocks_outside_the_window_are_released(tmp_path: Path) -> None:
    """The allocation for the next token frees blocks 0 and 1 of three together and reallocates 1."""
    recorder = Recorder(log_at(tmp_path / "run.kvtrace"), SETTINGS)
    one, call = request("a", 12), recorder.call
    call(recorder.arrived, one)
    for taken, freed, count in (([0, 1, 2], [], 12), ([1], [1, 0], 1)):
        call(recorder.scheduling)
        call(recorder.allocating, one)
        call(recorder.freed_blocks, freed)
        call(recorder.allocated, taken)
        call(recorder.end_allocation, one, count, True)
        call(recorder.scheduled, {"a": count})
        call(recorder.computed)
        one.all_token_ids.append(7)
        call(recorder.updated)
    assert recorder.ended is None
    ops = recorder.log.record(2).ops
    assert [(op.block_id, op.logical) for op in ops if isinstance(op, Release)] == [(1, 1), (0, 0)]
    assert recorder.log.state_now().free_queues == [[0, 3, 4, 5]]
    assert recorder.log.state_now().sequences[0].block_tables == [[-1, -1, 2, 1]]
    assert list(check(tmp_path / "run.kvtrace")) == []


def test_a_full_disk_ends_only_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder(log_at(tmp_path / "run.kvtrace"), SETTINGS)
    record_request(recorder, request("a", 6))
    num_records = len(recorder.log)

    def full(*_: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(recorder.log, "_write", full)
    with caplog.at_level(logging.WARNING, "kvtheater"):
        record_request(recorder, request("b", 6))
        record_request(recorder, request("c", 6))
    assert recorder.ended and "No space left on device" in recorder.ended
    assert len(caplog.records) == 1  # one warning
    assert len(recorder.log) == num_records
    recorder.close()
    assert list(check(tmp_path / "run.kvtrace")) == []


def test_contradictions_end_the_log(tmp_path: Path) -> None:
    """The calls of another version of vLLM may differ in meaning, for example if a block is allocated twice."""
    recorder = Recorder(log_at(tmp_path / "run.kvtrace"), SETTINGS)
    one, two = request("a", 4), request("b", 4)
    for each in (one, two):
        recorder.call(recorder.arrived, each)
    recorder.call(recorder.scheduling)
    for each in (one, two):
        recorder.call(recorder.allocating, each)
        recorder.call(recorder.allocated, [0])
        recorder.call(recorder.end_allocation, each, 4, True)
    assert recorder.ended == ("the log of this run has ended after 2 records: block 0 is allocated with ref_count 1")
    assert list(check(tmp_path / "run.kvtrace")) == []


def test_an_unexpected_call_ends_the_log(tmp_path: Path) -> None:
    recorder = Recorder(log_at(tmp_path / "run.kvtrace"), SETTINGS)
    recorder.call(recorder.allocated, [0], surprise=True)
    assert recorder.ended and "surprise" in recorder.ended


def test_a_request_keeps_the_users_id_if_it_is_unique() -> None:
    assert public_name("7-0123abcd", []) == "7"
    other: Any = SimpleNamespace(name="7")
    assert public_name("7-89abcdef", [other]) == "7-89abcdef"
    assert public_name("chat-7", []) == "chat-7"


def test_an_emptied_cache_evicts_every_hash(tmp_path: Path) -> None:
    from msgspec.structs import replace

    recorder = Recorder(log_at(tmp_path / "run.kvtrace"), replace(SETTINGS, enable_prefix_caching=True))
    one, call = request("a", 6), recorder.call
    one.block_hashes = [b"first"]
    call(recorder.arrived, one)
    call(recorder.scheduling)
    call(recorder.looked_up, one, [], 0)
    call(recorder.allocating, one)
    call(recorder.allocated, [0, 1])
    call(recorder.cached, one, [0])
    call(recorder.end_allocation, one, 6, True)
    call(recorder.scheduled, {"a": 6})
    call(recorder.computed)
    call(recorder.updated)
    call(recorder.freeing, one, True)
    call(recorder.freed_blocks, [1, 0])
    call(recorder.freed, one, "FINISHED_ABORTED")
    call(recorder.changed_between_steps)
    call(recorder.cache_reset)
    call(recorder.changed_between_steps)
    assert recorder.ended is None
    assert [recorder.log.record(index).kind for index in range(4)] == ["submit", "step", "abort", "adjust"]
    assert [(op.block_id, op.seq_id) for op in recorder.log.record(3).ops if isinstance(op, Evict)] == [(0, None)]
    assert list(check(tmp_path / "run.kvtrace")) == []


def test_a_missing_vllm_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(WatchError, match="vLLM is not installed in this environment"):
        watched(tmp_path / "run.kvtrace")
