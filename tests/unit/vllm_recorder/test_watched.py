"""The log of a watched vLLM agrees with its scheduler's output in each step.

`tests/load/watch_vllm.py` wrote both to `captured/`.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from engine.trace.apply import apply
from engine.trace.check import check
from engine.trace.log import TraceReader
from engine.trace.operations import Finish, Free, Lookup, Preempt
from engine.trace.state import State, initial_state

CAPTURED = Path(__file__).with_name("captured")
CASES = sorted(path.name.removesuffix(".kvtrace.gz") for path in CAPTURED.glob("*.kvtrace.gz"))


@pytest.fixture(params=CASES)
def captured(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, list[dict[str, Any]], dict[str, Any]]:
    """Return the log, vLLM's steps, and its outputs."""
    path = tmp_path / "run.kvtrace"
    path.write_bytes(gzip.decompress((CAPTURED / f"{request.param}.kvtrace.gz").read_bytes()))
    lines = gzip.decompress((CAPTURED / f"{request.param}.jsonl.gz").read_bytes()).splitlines()
    *steps, last = [json.loads(line) for line in lines]
    return path, steps, last


Captured = tuple[Path, list[dict[str, Any]], dict[str, Any]]


def test_the_log_is_valid(captured: Captured) -> None:
    assert list(check(captured[0])) == []


def without_suffix(name: str) -> str:
    """Return a request's name without the random suffix that vLLM appends."""
    return name.split("-")[0]


def tables_before_ends(state: State, record: Any) -> dict[str, list[int]]:
    """Return the block tables during the step, with blocks freed by sequences that end in the record, tail first."""
    found = {one.request_id: list(one.block_tables[0]) for one in state.sequences.values()}
    ended = {op.seq_id for op in record.ops if isinstance(op, Finish)}
    for op in reversed(record.ops):
        if isinstance(op, Free) and op.seq_id in ended:
            found[state.sequences[op.seq_id].request_id].append(op.block_id)
    return found


def test_each_step_agrees_with_the_scheduler_output_of_vllm(captured: Captured) -> None:
    """Tokens, starts and physical blocks of requests, preemptions and the number of free blocks agree."""
    path, steps, _ = captured
    with TraceReader(path) as log:
        state, number = initial_state(log.header), 0
        assert log.header.watched is not None
        first = log.header.watched.first_block_id
        for index in range(len(log)):
            record = log.record(index)
            apply(state, record)
            if record.kind != "step":
                continue
            names = {one.seq_id: one.request_id for one in state.sequences.values()}
            step = steps[number]
            scheduled = {names[entry.seq_id]: len(entry.token_ids) for entry in record.batch}
            assert scheduled == {without_suffix(name): count for name, count in step["scheduled"].items()}, number
            assert {names[entry.seq_id]: entry.start for entry in record.batch} == {
                without_suffix(name): start for name, start in step["computed"].items()
            }, number
            tables = tables_before_ends(state, record)
            for name, block_ids in step["blocks"].items():
                assert [block_id + first for block_id in tables[without_suffix(name)]] == block_ids, (number, name)
            preempted = [names[op.seq_id] for op in record.ops if isinstance(op, Preempt)]
            assert sorted(preempted) == sorted(map(without_suffix, step["preempted"])), number
            ended = {op.seq_id for op in record.ops if isinstance(op, Finish)}
            freed = sum(isinstance(op, Free) and op.seq_id in ended and op.to is not None for op in record.ops)
            assert record.memory.num_blocks - record.memory.blocks_held - freed == step["free"], number
            number += 1
    assert number == len(steps)


def test_the_logged_tokens_are_those_of_the_output(captured: Captured) -> None:
    path, _, last = captured
    with TraceReader(path) as log:
        state = log.state_at(len(log) - 1)
    generated = {one.request_id: one.token_ids[one.num_prompt_tokens :] for one in state.sequences.values()}
    assert generated == {without_suffix(name): tokens for name, tokens in last["outputs"].items()}
    assert all(one.status == "finished" for one in state.sequences.values())


def test_unknown_fields_are_listed(captured: Captured) -> None:
    with TraceReader(captured[0]) as log:
        assert log.header.watched is not None
        assert log.header.watched.unknown == ["arrays", "logprobs", "work"]
        assert log.header.watched.source == f"vLLM {captured[2]['vllm']}"
        records = [log.record(index) for index in range(len(log))]
    assert not any(record.has_capture or record.work for record in records)
    assert all(record.timing.forward > 0 for record in records if record.kind == "step")
    lookups = [op for record in records for op in record.ops if isinstance(op, Lookup)]
    if log.header.engine["enable_prefix_caching"]:
        assert {"hit", "miss"} <= {op.verdict for op in lookups} and "evicted" in {op.reason for op in lookups}
    else:
        assert {op.verdict for op in lookups} == {"disabled"}
