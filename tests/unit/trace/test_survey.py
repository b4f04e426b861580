"""A survey says of every record what the log's own state says, and is not believed when it is damaged or another's."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from engine.attach.observed_log import ObservedLog, header_of
from engine.attach.sequence import Break
from engine.trace.events import Evict, Load, Removed, Store
from engine.trace.log import TraceReader
from engine.trace.made_file import MadeFileError
from engine.trace.state import Sequence, State
from engine.trace.survey import make as making
from engine.trace.survey.block_rows import NONE
from engine.trace.survey.make import make
from engine.trace.survey.sequence_rows import PREEMPTED, RUNNING, WAITING
from engine.trace.survey.series import DRAWN, bins
from engine.trace.survey.stored import MAGIC, read_index
from engine.trace.survey.survey import Survey
from engine.trace.tables import group_of
from tests.load.large_log import Shape, write

GOLDEN = Path(__file__).parents[2] / "golden"
TRACES = sorted(path.name for path in GOLDEN.glob("*.kvtrace"))


@pytest.fixture(params=TRACES)
def log(request: pytest.FixtureRequest) -> TraceReader:
    return TraceReader(GOLDEN / request.param)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So small that a short log has many of them."""
    monkeypatch.setattr(making, "PIECE_RECORDS", 2)
    monkeypatch.setattr(making, "WHOLE_PIECES", 2)


@pytest.mark.usefixtures("small_pieces")
def test_blocks_are_those_of_the_state(log: TraceReader, tmp_path: Path) -> None:
    index = make(log, tmp_path / "a.survey")
    assert len(index.wholes) > 1
    survey = Survey(tmp_path / "a.survey", log)
    with log:
        seq_ids = [*index.sequences.seq_id, None]  # the last one is what NONE, -1, finds
        for record in range(-1, len(log)):
            state = log.state_at(record)
            rows = survey.blocks_at(record)
            assert [seq_ids[row] for row in rows["owner"]] == [block.allocated_by for block in state.blocks]
            assert rows["ref_count"].tolist() == [block.ref_count for block in state.blocks]
            assert rows["filled"].tolist() == [len(block.token_ids) for block in state.blocks]
            assert rows["num_hits"].tolist() == [block.num_hits for block in state.blocks]
            assert rows["is_cached"].tolist() == [block.block_hash is not None for block in state.blocks]
            allocated = [NONE if block.allocated_in is None else block.allocated_in for block in state.blocks]
            assert rows["allocated_in"].tolist() == allocated


@pytest.mark.usefixtures("small_pieces")
def test_tiers_are_those_that_the_log_names(log: TraceReader, tmp_path: Path) -> None:
    """Of a watched server the state says what lies where; of an engine its stores and loads do, for good."""
    media = make(log, tmp_path / "a.survey").media
    survey = Survey(tmp_path / "a.survey", log)
    put: set[tuple[int, bytes, str]] = set()
    seen = 0
    with log:
        names = ["cpu", "disk"] if log.path and log.path.name.startswith("outside") else ["CPU", "FS", "STORAGE fs"]
        assert media == (names if media else [])
        for record in range(len(log)):
            found, state = log.record(record), log.state_at(record)
            put |= {(found.instance, op.block_hash, op.medium) for op in found.ops if isinstance(op, Store | Load)}
            lies = put | {(b.instance, b.block_hash, b.medium) for b in state.outside if b.block_hash is not None}
            of = [state.block_groups[group_of(state, i)].instance for i in range(len(state.blocks))]
            expected = [
                sum(1 << i for i, name in enumerate(media) if (of[b.block_id], b.block_hash, name.split()[0]) in lies)
                for b in state.blocks
            ]
            assert survey.blocks_at(record)["tiers"].tolist() == expected
            seen += sum(expected)
    assert bool(seen) == bool(media)


@pytest.mark.usefixtures("small_pieces")
def test_changes_lead_from_each_record_to_the_next(log: TraceReader, tmp_path: Path) -> None:
    make(log, tmp_path / "a.survey")
    survey = Survey(tmp_path / "a.survey", log)
    with log:
        changes = survey.changes(0, len(log))
        assert (np.diff(changes["record"]) >= 0).all()
        for record in range(len(log)):
            own = changes[changes["record"] == record]
            before, after = survey.blocks_at(record - 1), survey.blocks_at(record)
            assert set(np.flatnonzero(before != after)) <= set(own["block"])
            assert (own["used_in"] == record).all() and (after["used_in"][own["block"]] == record).all()
            assert len(set(own["block"].tolist())) == len(own)


def _spans(state: State) -> dict[int, int]:
    """Of each sequence that is not finished what it does."""
    kinds = {"waiting": WAITING, "receiving": WAITING, "running": RUNNING, "preempted": PREEMPTED}
    return {i: kinds[one.status] for i, one in state.sequences.items() if one.status != "finished"}


def test_spans_and_numbers_are_those_of_the_state(log: TraceReader, tmp_path: Path) -> None:
    columns = make(log, tmp_path / "a.survey").sequences
    survey = Survey(tmp_path / "a.survey", log)
    with log:
        spans = list(zip(columns.span_row, columns.span_kind, columns.span_first, columns.span_end, strict=True))
        for record in range(len(log)):
            state, row, read = log.state_at(record), survey.series[record], log.record(record)
            here = [(r, k) for r, k, first, end in spans if first <= record and (end == NONE or record < end)]
            assert {columns.seq_id[r]: kind for r, kind in here} == _spans(state)
            if log.header.observed is None:
                assert row["running"] == len(state.running)
                assert row["waiting"] == len(state.waiting) + len(state.receiving)
            assert row["blocks_held"] == read.memory.blocks_held and row["at"] == read.timing.at
            assert row["evictions"] == sum(
                isinstance(op, Evict | Removed) and not getattr(op, "num_left", 0) for op in read.ops
            )
        if log.header.finished_kept is None:
            for seq_id, one in log.state_at(len(log) - 1).sequences.items():
                _expect_whole(columns.seq_id.index(seq_id), one, survey)


def _expect_whole(row: int, one: Sequence, survey: Survey) -> None:
    columns = survey.index.sequences
    assert columns.request_id[row] == one.request_id and columns.submitted_in[row] == one.submitted_in
    assert columns.num_prompt_tokens[row] == one.num_prompt_tokens
    assert columns.num_preemptions[row] == one.num_preemptions
    assert columns.finish_reason[row] == (one.finish_reason or "")
    assert columns.num_output_tokens[row] == len(one.token_ids) - one.num_prompt_tokens


@pytest.fixture(scope="module")
def pressed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which blocks are evicted and sequences preempted."""
    path = tmp_path_factory.mktemp("pressed") / "a.kvtrace"
    write(path, Shape(blocks=700, requests=60, steps=600))
    return path


def test_bins_keep_the_one_bad_record(pressed: Path, tmp_path: Path) -> None:
    with TraceReader(pressed) as log:
        make(log, tmp_path / "a.survey")
        survey = Survey(tmp_path / "a.survey", log)
        preempted = np.flatnonzero(survey.series["preemptions"])
        assert 0 < len(preempted) < len(log) / 20
        found = bins(survey.series, 0, len(log), 30)
        edges = found["edges"]
        assert edges[0] == 0 and edges[-1] == len(log) and (np.diff(edges) > 0).all()
        hit = {int(np.searchsorted(edges, record, "right")) - 1 for record in preempted}
        assert set(np.flatnonzero(found["preemptions_max"])) == hit
        assert found["preemptions_sum"].sum() == survey.series["preemptions"].sum()
        for name in DRAWN:
            assert found[f"{name}_min"].min() == survey.series[name].min()
            assert found[f"{name}_max"].max() == survey.series[name].max()
        assert len(bins(survey.series, 7, 9, 30)["edges"]) == 3
        with pytest.raises(ValueError, match="records"):
            bins(survey.series, 5, 5, 10)


def test_what_is_no_survey_of_this_log_is_not_believed(pressed: Path, log: TraceReader, tmp_path: Path) -> None:
    target = tmp_path / "a.survey"
    with log, TraceReader(pressed) as other:
        make(log, target)
        with pytest.raises(MadeFileError, match="another log"):
            Survey(target, other)
        whole = target.read_bytes()
        for at in (0, len(MAGIC), len(whole) // 2, len(whole) - 1):
            target.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            with pytest.raises(MadeFileError, match="damaged"):
                Survey(target, log)
        target.write_bytes(whole)
        rows = target.with_suffix(".rows")
        rows.write_bytes(bytes([rows.read_bytes()[0] ^ 1]) + rows.read_bytes()[1:])
        survey = Survey(target, log)
        with pytest.raises(MadeFileError, match="damaged"):
            survey.blocks_at(len(log) - 1)
        rows.unlink()
        with pytest.raises(MadeFileError, match="cannot be read"):
            survey.blocks_at(len(log) - 1)
        target.unlink()
        with pytest.raises(MadeFileError, match="no survey"):
            Survey(target, log)


def test_a_damaged_log_is_surveyed_as_far_as_it_goes(pressed: Path, tmp_path: Path) -> None:
    with TraceReader(pressed) as log:
        frame = log.record_frame(100)
    damaged = tmp_path / "damaged.kvtrace"
    content = bytearray(pressed.read_bytes())
    content[frame.offset + 1] ^= 0xFF
    damaged.write_bytes(content)
    with TraceReader(damaged, verify=False) as log:
        index = make(log, tmp_path / "a.survey")
        assert index.is_done and index.num_records == 100 and index.problem
        assert read_index(tmp_path / "a.survey") == index


def test_of_a_watched_server_the_numbers_are_those_of_its_metrics(tmp_path: Path) -> None:
    """Gauges as they were looked at last, of all ranks; of counters what they grew; unknown before they were said."""
    header = header_of(model="m", source="vLLM", block_size=2, num_blocks=8, events=["tcp://a:1", "tcp://a:2"])
    observed = ObservedLog(header, tmp_path / "seen.kvtrace")
    observed.told(0, Break("attached", 0))
    running, preempted = "vllm:num_requests_running", "vllm:num_preemptions_total"
    for looks in (
        {0: {running: 3.0, preempted: 10.0}},
        {1: {running: 2.0}},
        {0: {running: 4.0, preempted: 12.0}, 1: {running: 2.5}},
        {0: {running: 4.0, preempted: 1.0}},  # its counter began anew
    ):
        observed.numbers(looks)
    index = make(observed.log, tmp_path / "a.survey")
    series = Survey(tmp_path / "a.survey", observed.log).series
    assert index.said == ["at", "running", "blocks_cached", "evictions", "preemptions"]
    assert series["preemptions"].tolist() == [0, 0, 0, 2, 0, 1]
    assert np.isnan(series["running"][0]) and series["running"][1:].tolist() == [3, 5, 6, 6.5, 6.5]
    assert np.isnan(series["waiting"]).all() and np.isnan(series["usage"]).all()
    found = bins(series, 0, 6, 3)
    assert found["running_min"].tolist() == [3, 5, 6.5] and found["running_sum"].tolist() == [3, 11, 13]
    assert np.isnan(found["usage_max"]).all()
    observed.log.close()


def test_a_generated_log_is_the_same_for_the_same_seed(pressed: Path, tmp_path: Path) -> None:
    write(tmp_path / "b.kvtrace", Shape(blocks=700, requests=60, steps=600))
    with TraceReader(pressed) as one, TraceReader(tmp_path / "b.kvtrace") as other:
        assert len(one) == len(other) > 400
        assert all(one.record_bytes(i) == other.record_bytes(i) for i in range(len(one)))
        ops = Counter(op.__struct_config__.tag for i in range(len(one)) for op in one.record(i).ops)
        assert ops["evict"] and ops["preempt"] and ops["share"] and ops["defer"]


def test_who_comes_second_takes_what_the_first_has_made(
    pressed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "FIRST", 600.0)  # nothing is told before the end
    target = tmp_path / "a.survey"
    told: list[int] = []
    with TraceReader(pressed) as log:
        first = make(log, target, told.append)
        assert told == [len(log)]
        assert make(log, target, told.append) == first and told == [len(log)]
        rows = target.with_suffix(".rows")
        rows.write_bytes(b"\0" * rows.stat().st_size)
        assert make(log, target, told.append) == first and told == [len(log)] * 2
        assert (Survey(target, log).blocks_at(len(log) - 1)["ref_count"] >= 0).all()


def test_a_log_that_has_grown_is_surveyed_again(pressed: Path, tmp_path: Path) -> None:
    whole, cut = pressed.read_bytes(), tmp_path / "cut.kvtrace"
    with TraceReader(pressed) as log:
        frame = log.record_frame(300)
    cut.write_bytes(whole[: frame.offset + frame.length])
    with TraceReader(cut) as log:
        assert make(log, tmp_path / "a.survey").num_records == 301
    cut.write_bytes(whole)
    with TraceReader(cut) as log:
        assert Survey(tmp_path / "a.survey", log).is_of(log)  # as far as it goes
        assert make(log, tmp_path / "a.survey").num_records == len(log)
