"""Python's reducer and the browser's reach the same state from the same bytes, record by record."""

import json
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from msgspec.structs import replace

from engine.trace.check import check
from engine.trace.log import TraceReader, TraceWriter
from engine.trace.operations import Op
from engine.trace.state import memory_figures
from tests.js.node_run import node_output
from tests.unit.cluster.clusters import log_of_everything
from tests.unit.connector.pair import both_logs
from tests.unit.engine.runs import CONFIGS, POLICIES, run, tiny_llama

ROOT = Path(__file__).parents[2]


GOLDEN = sorted((ROOT / "tests/golden").glob("*.kvtrace"))


@pytest.mark.parametrize("name", [*CONFIGS, *POLICIES])
def test_the_browsers_state_equals_pythons_after_every_record_of_a_run(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.kvtrace"
    run(name, path).close()
    same_states(path)


def test_the_browsers_state_equals_pythons_on_both_sides_of_a_transfer(tmp_path: Path) -> None:
    for path in both_logs(tiny_llama(), tmp_path):
        same_states(path)


def test_the_browsers_state_equals_pythons_where_several_instances_write_one_log(tmp_path: Path) -> None:
    log_of_everything(tiny_llama(), tmp_path / "run.kvtrace")
    same_states(tmp_path / "run.kvtrace")


@pytest.mark.parametrize("kept", [0, 2])
@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_both_readers_drop_the_same_finished_sequences(path: Path, kept: int, tmp_path: Path) -> None:
    """Both readers forget the same sequences when the header limits the finished ones."""
    same_states(forgetting(path, tmp_path / "run.kvtrace", kept))


@pytest.mark.parametrize("name", ["preempting", "swapping"])
def test_readers_accept_a_log_that_drops_finished_sequences(name: str, tmp_path: Path) -> None:
    run(name, tmp_path / "whole.kvtrace").close()
    path = forgetting(tmp_path / "whole.kvtrace", tmp_path / "run.kvtrace", 1)
    same_states(path)
    assert not list(check(path))
    with TraceReader(path) as reader, TraceReader(tmp_path / "whole.kvtrace") as whole:
        last, all_of_it = reader.state_at(len(reader) - 1), whole.state_at(len(whole) - 1)
    assert 1 <= len(last.finished) < len(all_of_it.finished) == len(last.finished) + last.num_forgotten
    assert last.finished == all_of_it.finished[-len(last.finished) :]
    assert last.blocks == all_of_it.blocks and memory_figures(last) == memory_figures(all_of_it)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_the_browsers_state_equals_pythons_after_every_record_of_a_golden_trace(path: Path) -> None:
    same_states(path)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_traces_keep_their_figures(path: Path) -> None:
    """Each record has the cache manager's own figures, which folding the operations must reproduce."""
    with TraceReader(path) as reader:
        assert reader.damage is None and len(reader) > 0
        for index in range(len(reader)):
            figures = memory_figures(reader.state_at(index))
            assert figures == reader.record(index).memory, f"record {index}"


def test_runs_and_golden_traces_hold_every_operation(tmp_path: Path) -> None:
    """Every operation occurs in the compared traces; otherwise the comparison would prove nothing about it."""
    seen: set[type[Op]] = set()
    paths = list(GOLDEN)
    for name in ("preempting", "swapping", "no cache", "first fit", "sinks and window"):
        paths.append(tmp_path / f"{name}.kvtrace")
        run(name, paths[-1]).close()
    paths.append(tmp_path / "several.kvtrace")
    log_of_everything(tiny_llama(), paths[-1])
    for path in [*paths, *both_logs(tiny_llama(), tmp_path)]:
        with TraceReader(path) as reader:
            seen |= {type(op) for index in range(len(reader)) for op in reader.record(index).ops}
    assert set(get_args(Op)) - seen == set()


def forgetting(source: Path, target: Path, kept: int) -> Path:
    with TraceReader(source) as whole, TraceWriter(replace(whole.header, finished_kept=kept), target) as log:
        for index in range(len(whole)):
            log.append(whole.record(index), whole.capture(index))
    return target


def same_states(path: Path) -> None:
    theirs = [json.loads(line) for line in node_output("state_dump.mjs", path).splitlines()]
    with TraceReader(path) as reader:
        assert len(theirs) == len(reader)
        for index, state in enumerate(theirs):
            assert state == plain(reader.state_at(index)), f"record {index}"


def plain(value: Any) -> Any:
    """Return a state as JSON has it: bytes as lowercase hex, map keys as text."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value
