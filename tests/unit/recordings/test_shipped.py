"""Shipped recordings of the bundled model, which the command on their card reproduces."""

from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from app.ground.paths import static_dir
from app.recordings.shelf import Card, Shelf, traces_in
from engine import __version__
from engine.lab.rerun import SAME_RUNS
from engine.model.loaded import LoadedModel
from engine.model.loader import load_model
from engine.model.shipped import BUNDLED
from engine.trace.check import check
from engine.trace.log import TraceReader
from engine.trace.operations import Load, LookupExternal, Op, Rank, Share, Store
from engine.trace.records import Output, StepRecord
from tools.record_beside import CARDS
from tools.record_shipped import RECORDINGS, card, record

FOLDER = static_dir() / "recordings"
ONE_BIT = 2.0**-10  # of float16, the dtype of stored arrays; sums in another order may round differently
NAMES = [shipped.name for shipped in RECORDINGS]
MAX_BYTES = 6 << 20  # of all files


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return load_model(BUNDLED)


def test_every_shipped_recording_has_a_card() -> None:
    assert sorted(path.stem for path in traces_in(FOLDER)) == sorted([*NAMES, *CARDS])
    assert sum(path.stat().st_size for path in traces_in(FOLDER)) < MAX_BYTES
    for shipped in RECORDINGS:
        text = (FOLDER / f"{shipped.name}.json").read_bytes()
        assert msgspec.json.decode(text, type=Card) == card(shipped)
    entries = Shelf("shipped", traces_in(FOLDER)).entries()
    assert len(entries) == len(RECORDINGS) + len(CARDS) and all(
        e.title and e.title["zh"] and not e.summary.damage for e in entries
    )


@pytest.mark.parametrize("name", NAMES)
def test_each_shipped_recording_is_valid(name: str) -> None:
    assert [str(finding) for finding in check(FOLDER / f"{name}.kvtrace")] == []


def test_shipped_recordings_are_of_versions_that_can_be_rerun() -> None:
    """Recordings of earlier versions in `SAME_RUNS` are compared with a rerun below."""
    assert f"kvtheater {__version__}" in SAME_RUNS
    for path in traces_in(FOLDER):
        with TraceReader(path) as log:
            assert log.header.watched or log.header.generator in SAME_RUNS, path.name


@pytest.mark.parametrize("name", NAMES)
def test_the_command_on_the_card_reproduces_the_log(name: str, model: LoadedModel, tmp_path: Path) -> None:
    """Ids, tokens, blocks and figures are equal, and floating-point values up to rounding."""
    again = tmp_path / "again.kvtrace"
    record(model, next(shipped for shipped in RECORDINGS if shipped.name == name), again)
    with TraceReader(FOLDER / f"{name}.kvtrace") as shipped, TraceReader(again) as repeated:
        assert shipped.header.model == repeated.header.model
        assert shipped.header.engine == repeated.header.engine
        assert len(shipped) == len(repeated)
        for index in range(len(repeated)):
            old, new = shipped.record(index), repeated.record(index)
            assert _exact(old) == _exact(new)
            for a, b in zip(old.outputs, new.outputs, strict=True):
                assert a.logprob == pytest.approx(b.logprob, abs=1e-3)
            for ranked, again_ranked in zip(_ranks(old), _ranks(new), strict=True):
                assert ranked.scores == pytest.approx(again_ranked.scores, abs=1e-3)
            _compare_arrays(shipped, repeated, index)


def test_shipped_recordings_contain_the_operations_of_their_subject() -> None:
    shown = {"moon": set[str](), "prefix": {"Share"}, "preemption": {"Preempt", "Evict"}, "samples": {"Fork", "Copy"}}
    shown |= {"restart-before": {"Store"}, "restart-after": {"Load"}}
    for name, expected in shown.items():
        with TraceReader(FOLDER / f"{name}.kvtrace") as reader:
            ops = {type(op).__name__ for i in range(len(reader)) for op in reader.record(i).ops}
            assert expected <= ops
            if name == "moon":
                assert [sum(len(e.token_ids) for e in reader.record(i).batch) for i in (1, 2, 24)] == [16, 1, 1]
                assert len(reader) == 25


def test_after_the_restart_blocks_are_loaded_from_disk() -> None:
    with (
        TraceReader(FOLDER / "restart-before.kvtrace") as before,
        TraceReader(FOLDER / "restart-after.kvtrace") as after,
    ):
        stored = {op.block_hash for i in range(len(before)) for op in before.record(i).ops if isinstance(op, Store)}
        first, second = (
            after.record(1),
            next(r for i in range(2, len(after)) if (r := after.record(i)).kind == "submit"),
        )
        found = next(op for op in first.ops if isinstance(op, LookupExternal))
        assert (found.verdict, found.num_tokens, found.num_found_tokens, set(found.media)) == ("load", 28, 28, {"disk"})
        loaded = [op for op in first.ops if isinstance(op, Load)]
        assert len(loaded) == 7 and {op.block_hash for op in loaded} <= stored
        assert sum(len(entry.token_ids) for entry in first.batch) == 4, "of 32 prompt tokens"
        again = after.record(second.index + 1).ops
        assert sum(isinstance(op, Share) for op in again) == 7, "the blocks are in the pool"
        assert not any(isinstance(op, Load) for op in again)
        texts = [log.state_at(len(log) - 1).sequences for log in (before, after)]
        assert texts[0][0].token_ids == texts[1][0].token_ids == texts[1][1].token_ids


def _exact(record: StepRecord) -> object:
    def without_logprobs(output: Output) -> object:
        return output.seq_id, output.token_id, output.token_bytes, output.text

    ops = [_without_clocks(op) for op in record.ops]
    work = record.work and replace(record.work, weight_bytes=0)  # weights may be in half precision on a machine
    return (
        record.index, record.kind, record.step, record.batch, ops, record.memory, work,
        record.has_capture, [without_logprobs(output) for output in record.outputs],
    )  # fmt: skip


def _without_clocks(op: Op) -> Op:
    """Return an operation without times and without scores, which are compared separately."""
    if isinstance(op, LookupExternal):
        return replace(op, load_seconds=None, compute_seconds=None)
    return replace(op, scores=[]) if isinstance(op, Rank) else op


def _ranks(record: StepRecord) -> list[Rank]:
    return [op for op in record.ops if isinstance(op, Rank)]


def _compare_arrays(shipped: TraceReader, repeated: TraceReader, index: int) -> None:
    old, new = shipped.capture(index), repeated.capture(index)
    if old is None or new is None:
        assert old is new
        return
    assert [layer.layer for layer in old.layers] == [layer.layer for layer in new.layers]
    for a, b in zip(old.layers, new.layers, strict=True):
        for x, y in [(a.q, b.q), (a.k, b.k), (a.v, b.v)]:
            np.testing.assert_allclose(x, y, atol=1e-3, rtol=ONE_BIT)
        for r, s in zip(a.rows, b.rows, strict=True):
            assert (r.seq_id, r.query_start, r.key_start, r.heads) == (s.seq_id, s.query_start, s.key_start, s.heads)
            np.testing.assert_allclose(r.weights, s.weights, atol=1e-3)
