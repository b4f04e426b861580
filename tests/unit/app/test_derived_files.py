"""Derived files of a server: their limit, and which are deleted when a run ends."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import app.log_index.derived_files
from app.ground.errors import AppError
from app.ground.paths import static_dir
from app.log_index.derived_files import LogIndexes
from app.session.run import OpenLog
from engine.trace.derived_file import DerivedFileError
from engine.trace.log import TraceReader, TraceWriter
from engine.trace.log_index.log_index import LogIndex
from engine.trace.log_index.make import make
from tests.unit.monitor.waiting import wait_for

FILES = sorted((static_dir() / "recordings").glob("*.kvtrace"))[:4]


@pytest.fixture
def log_indexes(tmp_path: Path) -> Iterator[LogIndexes]:
    found = LogIndexes(tmp_path)
    yield found
    found.close()


def growing_log(path: Path) -> OpenLog:
    """Return a live run with its current records."""
    with TraceReader(path) as log:
        writer = TraceWriter(log.header)
        for index in range(len(log)):
            writer.append(log.record(index))
    return OpenLog(0, writer)


def known(log_indexes: LogIndexes, run: OpenLog) -> Callable[[], bool]:
    def is_known() -> bool:
        try:
            return len(log_indexes.find(run)) == len(run.log)
        except AppError as error:
            assert error.code == "loading"
            return False

    return is_known


def test_evicted_indexes_are_read_again_on_demand(log_indexes: LogIndexes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.log_index.derived_files, "MAX_READ", 2)
    runs = [OpenLog(0, TraceReader(path)) for path in FILES]
    for run in runs:
        with run.reading() as log:
            make(log, log_indexes._target(run, log))
    first = log_indexes.find(runs[0])
    for run in (*runs[1:], runs[0]):
        assert len(log_indexes.find(run)) == len(run.log)
        assert len(log_indexes._read) <= 2
    assert not log_indexes._making  # each was read from its file
    again: LogIndex = log_indexes.find(runs[0])
    assert again is not first and len(again) == len(first)
    for run in runs:
        run.retire()


@pytest.mark.slow
def test_a_restarted_index_keeps_its_files(log_indexes: LogIndexes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the first process does not delete the files of the second."""
    monkeypatch.setattr(app.log_index.derived_files, "CHECK_SECONDS", 0.05)
    run = growing_log(FILES[0])
    with pytest.raises(AppError, match="for the first time"):
        log_indexes.find(run)
    [process] = log_indexes._making.values()
    process.terminate()
    wait_for(lambda: not log_indexes._making)
    with pytest.raises(AppError, match="cannot be indexed: its process ended before"):
        log_indexes.find(run)
    wait_for(known(log_indexes, run))
    for _ in range(10):
        assert known(log_indexes, run)()
        time.sleep(0.02)
    run.retire()
    wait_for(lambda: not list(log_indexes._folder.iterdir()))


@pytest.mark.slow
def test_damaged_indexes_of_live_runs_are_rebuilt(log_indexes: LogIndexes) -> None:
    run = growing_log(FILES[0])
    wait_for(known(log_indexes, run))
    [rows] = log_indexes._folder.glob("*.rows")
    rows.write_bytes(b"\0" * rows.stat().st_size)
    last = len(run.log) - 1
    with pytest.raises(DerivedFileError, match="damaged"):
        log_indexes.find(run).blocks_at(last)
    log_indexes.forget(run)
    assert not log_indexes._making  # an update would extend damaged data
    wait_for(known(log_indexes, run))
    assert (log_indexes.find(run).blocks_at(last)["ref_count"] >= 0).all()
    run.retire()


@pytest.mark.slow
def test_an_unused_build_ends_and_restarts_on_the_next_request(
    log_indexes: LogIndexes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.log_index.derived_files, "CHECK_SECONDS", 0.05)
    run = growing_log(FILES[0])
    wait_for(known(log_indexes, run))
    monkeypatch.setattr(app.log_index.derived_files, "IDLE", 0.0)
    wait_for(lambda: not list(log_indexes._folder.iterdir()) and not log_indexes._making)
    monkeypatch.setattr(app.log_index.derived_files, "IDLE", 600.0)
    wait_for(known(log_indexes, run))
    run.retire()
