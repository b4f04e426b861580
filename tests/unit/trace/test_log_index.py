"""A log index agrees with the log's state at every record, and one that is damaged or of another log is refused."""

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import asdict

from engine.observe.monitor.observed_log import ObservedLog, header_of
from engine.observe.monitor.sequence import Break
from engine.trace.derived_file import DerivedFileError, Stamp
from engine.trace.log import TraceReader
from engine.trace.log_index import make as making
from engine.trace.log_index.block_rows import NONE
from engine.trace.log_index.columns import Patch, apply_patch
from engine.trace.log_index.content_rows import ContentColumns
from engine.trace.log_index.log_index import LogIndex
from engine.trace.log_index.make import make
from engine.trace.log_index.observed_ranks import ObservedColumns, concatenate
from engine.trace.log_index.sequence_rows import PREEMPTED, RUNNING, WAITING
from engine.trace.log_index.series import DRAWN, bins
from engine.trace.log_index.stored import FILE_ID_BYTES, MAGIC, Index, read_index
from engine.trace.operations import Evict, Load, Removed, Store
from engine.trace.state import Sequence, State
from engine.trace.tables import group_of
from tests.load.large_log import Shape, write

GOLDEN = Path(__file__).parents[2] / "golden"
MAGIC_AND_OWN = len(MAGIC) + FILE_ID_BYTES
TRACES = sorted(path.name for path in GOLDEN.glob("*.kvtrace"))


@pytest.fixture(params=TRACES)
def log(request: pytest.FixtureRequest) -> TraceReader:
    return TraceReader(GOLDEN / request.param)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make index pieces small, so that a short log has many of them."""
    monkeypatch.setattr(making, "PIECE_RECORDS", 2)
    monkeypatch.setattr(making, "WHOLE_PIECES", 2)


@pytest.mark.usefixtures("small_pieces")
def test_blocks_and_tiers_are_those_of_the_state(log: TraceReader, tmp_path: Path) -> None:
    """A monitored server's tiers are in the state. An engine's are those of its stores and loads so far."""
    index = make(log, tmp_path / "a.survey")
    assert len(index.wholes) > 1
    log_index, media = LogIndex(tmp_path / "a.survey", log), index.media
    copied: set[tuple[int, bytes, str]] = set()
    with log:
        names = ["cpu", "disk"] if log.path and log.path.name.startswith("outside") else ["CPU", "FS", "STORAGE fs"]
        assert media == (names if media else [])
        seq_ids = [*index.sequences.seq_id, None]  # NONE is -1 and finds the last one
        changes, before, num_tiers = log_index.changes(0, len(log)), log_index.blocks_at(-1), 0
        assert (np.diff(changes["record"]) >= 0).all()
        for record in range(len(log)):
            found, state, rows = log.record(record), log.state_at(record), log_index.blocks_at(record)
            assert [seq_ids[row] for row in rows["owner"]] == [block.allocated_by for block in state.blocks]
            assert rows["ref_count"].tolist() == [block.ref_count for block in state.blocks]
            assert rows["filled"].tolist() == [len(block.token_ids) for block in state.blocks]
            assert rows["num_hits"].tolist() == [block.num_hits for block in state.blocks]
            assert rows["is_cached"].tolist() == [block.block_hash is not None for block in state.blocks]
            allocated = [NONE if block.allocated_in is None else block.allocated_in for block in state.blocks]
            assert rows["allocated_in"].tolist() == allocated
            copied |= {(found.instance, op.block_hash, op.medium) for op in found.ops if isinstance(op, Store | Load)}
            copies = copied | {(b.instance, b.block_hash, b.medium) for b in state.outside if b.block_hash is not None}
            instances = [state.block_groups[group_of(state, i)].instance for i in range(len(state.blocks))]
            expected = [
                sum(
                    1 << i
                    for i, name in enumerate(media)
                    if (instances[b.block_id], b.block_hash, name.split()[0]) in copies
                )
                for b in state.blocks
            ]
            assert rows["tiers"].tolist() == expected
            num_tiers += sum(expected)
            of_record = changes[changes["record"] == record]
            assert set(np.flatnonzero(before != rows)) <= set(of_record["block"])
            assert (of_record["used_in"] == record).all() and (rows["used_in"][of_record["block"]] == record).all()
            assert len(set(of_record["block"].tolist())) == len(of_record)
            before = rows
        assert bool(num_tiers) == bool(media)


def _span_kinds(state: State) -> dict[int, int]:
    """Return the status of each unfinished sequence."""
    kinds = {"waiting": WAITING, "receiving": WAITING, "running": RUNNING, "preempted": PREEMPTED}
    return {i: kinds[one.status] for i, one in state.sequences.items() if one.status != "finished"}


def test_spans_and_counts_are_those_of_the_state(log: TraceReader, tmp_path: Path) -> None:
    index = make(log, tmp_path / "a.survey")
    columns, span_columns = index.sequences, index.spans
    log_index = LogIndex(tmp_path / "a.survey", log)
    with log:
        spans = list(zip(span_columns.row, span_columns.kind, span_columns.first, span_columns.end, strict=True))
        for record in range(len(log)):
            state, row, read = log.state_at(record), log_index.series[record], log.record(record)
            current = [(r, k) for r, k, first, end in spans if first <= record and (end == NONE or record < end)]
            assert {columns.seq_id[r]: kind for r, kind in current} == _span_kinds(state)
            if log.header.observed is None:
                assert row["running"] == len(state.running)
                assert row["waiting"] == len(state.waiting) + len(state.receiving)
            assert row["blocks_held"] == read.memory.blocks_held and row["at"] == read.timing.at
            assert row["evictions"] == sum(
                isinstance(op, Evict | Removed) and not getattr(op, "num_left", 0) for op in read.ops
            )
        if log.header.finished_kept is None:
            for seq_id, one in log.state_at(len(log) - 1).sequences.items():
                _expect_sequence(columns.seq_id.index(seq_id), one, log_index)


def _expect_sequence(row: int, one: Sequence, log_index: LogIndex) -> None:
    columns = log_index.index.sequences
    assert columns.request_id[row] == one.request_id and columns.submitted_in[row] == one.submitted_in
    assert columns.num_prompt_tokens[row] == one.num_prompt_tokens
    assert columns.num_preemptions[row] == one.num_preemptions
    assert columns.finish_reason[row] == (one.finish_reason or "")
    assert columns.num_output_tokens[row] == len(one.token_ids) - one.num_prompt_tokens


@pytest.fixture(scope="module")
def pressed_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a run in which blocks are evicted and sequences preempted."""
    path = tmp_path_factory.mktemp("pressed") / "a.kvtrace"
    write(path, Shape(blocks=700, requests=60, steps=600))
    return path


def test_a_bin_keeps_the_extremes_of_its_records(pressed_log: Path, tmp_path: Path) -> None:
    with TraceReader(pressed_log) as log:
        make(log, tmp_path / "a.survey")
        log_index = LogIndex(tmp_path / "a.survey", log)
        preempted = np.flatnonzero(log_index.series["preemptions"])
        assert 0 < len(preempted) < len(log) / 20
        found = bins(log_index.series, 0, len(log), 30)
        edges = found["edges"]
        assert edges[0] == 0 and edges[-1] == len(log) and (np.diff(edges) > 0).all()
        expected = {int(np.searchsorted(edges, record, "right")) - 1 for record in preempted}
        assert set(np.flatnonzero(found["preemptions_max"])) == expected
        assert found["preemptions_sum"].sum() == log_index.series["preemptions"].sum()
        for name in DRAWN:
            assert found[f"{name}_min"].min() == log_index.series[name].min()
            assert found[f"{name}_max"].max() == log_index.series[name].max()
        assert len(bins(log_index.series, 7, 9, 30)["edges"]) == 3
        with pytest.raises(ValueError, match="records"):
            bins(log_index.series, 5, 5, 10)


def test_an_index_that_is_damaged_or_of_another_log_is_refused(pressed_log: Path, tmp_path: Path) -> None:
    target = tmp_path / "a.survey"
    with TraceReader(GOLDEN / "states.kvtrace") as log, TraceReader(pressed_log) as other:
        make(log, target)
        with pytest.raises(DerivedFileError, match="another log"):
            LogIndex(target, other)
        data = target.read_bytes()
        for at in (0, len(MAGIC), len(data) // 2, len(data) - 1):
            target.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            with pytest.raises(DerivedFileError, match="damaged"):
                LogIndex(target, log)
        target.write_bytes(data)
        rows = target.with_suffix(".rows")
        rows.write_bytes(bytes([rows.read_bytes()[0] ^ 1]) + rows.read_bytes()[1:])
        log_index = LogIndex(target, log)
        with pytest.raises(DerivedFileError, match="damaged"):
            log_index.blocks_at(len(log) - 1)
        rows.unlink()
        with pytest.raises(DerivedFileError, match="cannot be read"):
            log_index.blocks_at(len(log) - 1)
        target.unlink()
        with pytest.raises(DerivedFileError, match="no log index"):
            LogIndex(target, log)


def test_a_damaged_log_is_indexed_up_to_the_damage(pressed_log: Path, tmp_path: Path) -> None:
    with TraceReader(pressed_log) as log:
        frame = log.record_frame(100)
    damaged = tmp_path / "damaged.kvtrace"
    content = bytearray(pressed_log.read_bytes())
    content[frame.offset + 1] ^= 0xFF
    damaged.write_bytes(content)
    with TraceReader(damaged, verify=False) as log:
        index = make(log, tmp_path / "a.survey")
        assert index.is_done and index.num_records == 100 and index.problem
        assert read_index(tmp_path / "a.survey") == index


def test_series_of_a_monitored_server_are_those_of_its_metrics(tmp_path: Path) -> None:
    """Gauges are the sums of the ranks' last readings, unknown before the first one. Counters are increases."""
    header = header_of(model="m", source="vLLM", block_size=2, num_blocks=8, events=["tcp://a:1", "tcp://a:2"])
    observed = ObservedLog(header, tmp_path / "seen.kvtrace")
    observed.receive(0, Break("attached", 0))
    running, preempted = "vllm:num_requests_running", "vllm:num_preemptions_total"
    for readings in (
        {0: {running: 3.0, preempted: 10.0}},
        {1: {running: 2.0}},
        {0: {running: 4.0, preempted: 12.0}, 1: {running: 2.5}},
        {0: {running: 4.0, preempted: 1.0}},  # its counter restarted
    ):
        observed.numbers(readings)
    index = make(observed.log, tmp_path / "a.survey")
    series = LogIndex(tmp_path / "a.survey", observed.log).series
    assert index.said == ["at", "running", "blocks_cached", "evictions", "preemptions"]
    assert series["preemptions"].tolist() == [0, 0, 0, 2, 0, 1]
    assert np.isnan(series["running"][0]) and series["running"][1:].tolist() == [3, 5, 6, 6.5, 6.5]
    assert np.isnan(series["waiting"]).all() and np.isnan(series["usage"]).all()
    found = bins(series, 0, 6, 3)
    assert found["running_min"].tolist() == [3, 5, 6.5] and found["running_sum"].tolist() == [3, 11, 13]
    assert np.isnan(found["usage_max"]).all()
    observed.log.close()


def test_a_generated_log_is_deterministic(pressed_log: Path, tmp_path: Path) -> None:
    write(tmp_path / "b.kvtrace", Shape(blocks=700, requests=60, steps=600))
    with TraceReader(pressed_log) as one, TraceReader(tmp_path / "b.kvtrace") as other:
        assert len(one) == len(other) > 400
        assert all(one.record_bytes(i) == other.record_bytes(i) for i in range(len(one)))
        ops = Counter(op.__struct_config__.tag for i in range(len(one)) for op in one.record(i).ops)
        assert ops["evict"] and ops["preempt"] and ops["share"] and ops["defer"]


def test_a_second_writer_reuses_a_valid_index(
    pressed_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "FIRST_SECONDS", 600.0)  # progress is only reported at the end
    target = tmp_path / "a.survey"
    progress: list[int] = []
    with TraceReader(pressed_log) as log:
        first = make(log, target, progress.append)
        assert progress == [len(log)]
        assert make(log, target, progress.append) == first and progress == [len(log)]
        rows = target.with_suffix(".rows")
        known = LogIndex(target, log)
        rows.write_bytes(b"\0" * rows.stat().st_size)
        assert _contents(make(log, target, progress.append)) == _contents(first) and progress == [len(log)] * 2
        again = LogIndex(target, log, known)  # a new file is read from its beginning
        assert again.index.position.file_id != known.index.position.file_id and _contents(again.index) == _contents(
            known.index
        )
        assert (again.blocks_at(len(log) - 1)["ref_count"] >= 0).all()


def _contents(index: Index) -> dict[str, Any]:
    """Return an index's content, independent of its split into updates."""
    found = asdict(index)
    for name in ("position", "changes", "wholes", "contents", "heard"):
        del found[name]
    contents = ContentColumns()
    for patch in index.contents:
        apply_patch(contents, msgspec.msgpack.decode(patch, type=Patch[ContentColumns]))
    observed = concatenate([msgspec.msgpack.decode(one, type=ObservedColumns) for one in index.heard])
    return {**found, "contents": asdict(contents), "heard": asdict(observed), "is_done": None}


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Update the index after each record."""
    monkeypatch.setattr(making, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(making, "UPDATE_SECONDS", 0.0)


@pytest.mark.usefixtures("one_by_one", "small_pieces")
@pytest.mark.parametrize("log", ["instances.kvtrace", "observed.kvtrace", "outside.kvtrace"], indirect=True)
def test_a_truncated_index_covers_fewer_records(log: TraceReader, tmp_path: Path) -> None:
    """A truncated file indexes the records whose update is complete, and is rebuilt."""
    target, ends = tmp_path / "a.survey", list[int]()
    with log:
        make(log, target, lambda count: ends.append(target.stat().st_size))
        assert len(ends) == len(log) + 1 and ends[-1] == target.stat().st_size
        data, blocks = target.read_bytes(), LogIndex(target, log).blocks_at(len(log) - 1)
        for cut in (0, 1, MAGIC_AND_OWN, MAGIC_AND_OWN + 1, ends[0] - 1):
            target.write_bytes(data[:cut])
            with pytest.raises(DerivedFileError, match="damaged"):
                LogIndex(target, log)
        known: LogIndex | None = None
        for count in range(1, len(log) + 1, max(1, len(log) // 10)):
            end = ends[count - 1]
            for cut in (end, end + 1, end + 7, end + 8, end + 9, ends[count] - 1):
                target.write_bytes(data[:cut])
                known = LogIndex(target, log, known)
                assert len(known) == count and not known.index.is_done
            assert known is not None
            damaged = bytes([data[end + 8] ^ 1])  # the first byte of the next update
            target.write_bytes(data[: end + 8] + damaged + data[end + 9 :])
            assert read_index(target) == known.index == read_index(target, known.index)
            _expect_index_of_shorter_log(known, log, count, tmp_path)
        again = make(log, target)
        assert again.is_done
        assert (LogIndex(target, log, known).blocks_at(len(log) - 1) == blocks).all()


def _expect_index_of_shorter_log(log_index: LogIndex, log: TraceReader, count: int, folder: Path) -> None:
    frame, shorter = log.record_frame(count - 1), folder / "shorter.kvtrace"
    assert log.path is not None
    shorter.write_bytes(log.path.read_bytes()[: frame.offset + frame.length])
    with TraceReader(shorter, verify=False) as short_log, pytest.MonkeyPatch.context() as patch:
        patch.setattr(making, "FIRST_SECONDS", 600.0)
        assert _contents(make(short_log, folder / "b.survey")) == _contents(log_index.index)
        expected = LogIndex(folder / "b.survey", short_log)
        assert log_index.contents == expected.contents
        assert (log_index.blocks_at(count - 1) == expected.blocks_at(count - 1)).all()


@pytest.mark.usefixtures("one_by_one")
def test_index_bytes_per_record_are_constant(pressed_log: Path, tmp_path: Path) -> None:
    target = tmp_path / "a.survey"
    sizes = [0]
    with TraceReader(pressed_log) as log:
        index = make(log, target, lambda count: sizes.append(target.stat().st_size))
        grown = np.diff(sizes[:-1])
        ops = np.array([len(log.record(i).ops) for i in range(len(log))])
        assert index.stamp == Stamp.of(log, len(log)) and len(grown) == len(log)
        assert (grown < 600 + 20 * ops).all()  # an update with the numbers of all 1,241 records would take 74,460
        assert _contents(index) == _contents(read_index(target))


def test_a_grown_log_is_indexed_again(pressed_log: Path, tmp_path: Path) -> None:
    data, cut = pressed_log.read_bytes(), tmp_path / "cut.kvtrace"
    with TraceReader(pressed_log) as log:
        frame = log.record_frame(300)
    cut.write_bytes(data[: frame.offset + frame.length])
    with TraceReader(cut) as log:
        assert make(log, tmp_path / "a.survey").num_records == 301
    cut.write_bytes(data)
    with TraceReader(cut) as log:
        assert LogIndex(tmp_path / "a.survey", log).is_of(log)  # up to its length
        assert make(log, tmp_path / "a.survey").num_records == len(log)
