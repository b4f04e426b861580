"""The replayed log equals the live engine after every record."""

from pathlib import Path

import msgspec
import pytest

from engine.engine import Engine
from engine.trace.log import TraceReader
from engine.trace.operations import Copy, Evict, Fork, Preempt, Rank, Release, Share, SwapIn, SwapOut
from engine.trace.records import StepRecord, Timing
from engine.trace.snapshot import snapshot_of
from tests.unit.engine.runs import CONFIGS, POLICIES, log_of, run


@pytest.mark.parametrize("name", [*CONFIGS, *POLICIES])
def test_replay_equals_the_engine_after_every_record(name: str) -> None:
    snapshots = []

    def check(engine: Engine) -> None:
        assert engine.log is not None
        engine.check_integrity()
        state = engine.log.state_at(len(engine.log) - 1)
        live = engine.snapshot()
        assert snapshot_of(state) == live
        assert engine.log.record(len(engine.log) - 1).memory == live.memory
        snapshots.append(live)

    with run(name, on_record=check) as engine:
        assert len(snapshots) == len(log_of(engine))


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("preempting", {Preempt, Fork, Copy, Rank}),
        ("swapping", {SwapOut, SwapIn, Fork, Copy, Rank}),
        ("sinks and window", {Release, Preempt, Share, Evict, Fork, Copy, Rank}),
        ("window and swapping", {Release, SwapOut, SwapIn, Share, Fork, Copy, Rank}),
    ],
)
def test_the_runs_contain_the_operations_of_their_features(name: str, kinds: set[type]) -> None:
    """Otherwise the test above would not cover these features."""
    with run(name) as engine:
        log = log_of(engine)
        assert kinds <= {type(op) for i in range(len(log)) for op in log.record(i).ops}


@pytest.mark.parametrize("name", ["preempting", "swapping", "no cache"])
def test_the_same_inputs_give_the_same_log_except_for_times(name: str, tmp_path: Path) -> None:
    def without_times(path: Path) -> list[tuple[StepRecord, bytes | None]]:
        run(name, path).close()
        with TraceReader(path) as reader:
            assert reader.damage is None
            return [
                (msgspec.structs.replace(reader.record(i), timing=Timing(at=0)), reader.capture_bytes(i))
                for i in range(len(reader))
            ]

    assert without_times(tmp_path / "a.kvtrace") == without_times(tmp_path / "b.kvtrace")
