"""Traces of versions 0.1 and 0.2 are read, and their reruns are refused with a reason.

The files were recorded by those versions and are never regenerated. `samples-0.1.0` has no block groups, and
`prefix-0.1.0` has one.
"""

from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from app.page.onefile import export_page
from engine.lab.rerun import RerunError, check_origin
from engine.trace import codec
from engine.trace.check import check
from engine.trace.codec import TraceFormatError
from engine.trace.explain import overview
from engine.trace.log import TraceReader
from engine.trace.state import memory_figures

GOLDEN = Path(__file__).parents[2] / "golden"


class Old(NamedTuple):
    """Content of a file, as read by its own version."""

    file: str
    generator: str
    num_records: int
    tokens: list[int]  # of the sequences, prompt and output
    text: str  # beginning of the output of the first sequence
    totals: tuple[int, int, int]  # hit tokens, looked up tokens, output tokens


OLD = [
    Old("samples-0.1.0", "kvtheater 0.1.0", 13, [26, 26, 26], "千里目，更上一层楼。", (0, 14, 36)),
    Old("prefix-0.1.0", "kvtheater 0.1.0", 27, [24, 32, 20], "滟滟随波千万里", (20, 52, 24)),
    Old("samples-0.2.0", "kvtheater 0.2.0", 13, [26, 26, 26], "千里目，更上一层楼。", (0, 14, 36)),
]


@pytest.fixture(params=OLD, ids=lambda old: old.file)
def old(request: pytest.FixtureRequest) -> Old:
    found: Old = request.param
    return found


@pytest.fixture
def log(old: Old):
    with TraceReader(GOLDEN / f"{old.file}.kvtrace") as reader:
        yield reader


def test_old_traces_are_read_in_full(old: Old, log: TraceReader) -> None:
    assert log.damage is None and log.header.generator == old.generator and len(log) == old.num_records
    state = log.state_at(len(log) - 1)
    assert [len(sequence.token_ids) for sequence in state.sequences.values()] == old.tokens
    outputs = [output for index in range(len(log)) for output in log.record(index).outputs if output.seq_id == 0]
    assert "".join(output.text for output in outputs).startswith(old.text)


def test_old_traces_are_valid_and_have_the_recorded_figures(old: Old, log: TraceReader) -> None:
    assert list(check(GOLDEN / f"{old.file}.kvtrace")) == []
    for index in range(len(log)):
        assert memory_figures(log.state_at(index)) == log.record(index).memory, f"record {index}"


def test_captures_of_old_versions_are_readable(log: TraceReader) -> None:
    captured = [index for index in range(len(log)) if log.record(index).has_capture]
    assert captured
    for index in captured:
        capture = log.capture(index)
        assert capture is not None and len(capture.layers) == log.header.model.num_layers
        num_tokens = sum(len(entry.token_ids) for entry in log.record(index).batch)
        assert all(layer.k.shape[0] == num_tokens for layer in capture.layers)  # [T, Hkv, D]


def test_old_traces_are_explained_and_exported(old: Old, log: TraceReader) -> None:
    totals = overview(log).totals
    assert (totals.hit_tokens, totals.asked_tokens, totals.output_tokens) == old.totals
    assert log.header.model.name.encode() in export_page(log)


def test_reruns_of_another_version_are_refused(old: Old, log: TraceReader) -> None:
    header = msgspec.structs.replace(log.header, generator="kvtheater 9.9.9")
    with pytest.raises(RerunError, match=f"recorded by {old.generator}, whose results kvtheater 9.9.9 may not"):
        check_origin(log.header, header, same_settings=True)
    check_origin(log.header, log.header, same_settings=True)


def test_an_unknown_operation_is_named(tmp_path: Path) -> None:
    path = tmp_path / "later.kvtrace"
    with TraceReader(GOLDEN / "samples-0.2.0.kvtrace") as log:
        frames = [codec.MAGIC, codec.frame("header", log.header_bytes)]
        for index in range(len(log)):
            record = msgspec.msgpack.decode(log.record_bytes(index))
            if index == 5:
                record["ops"].insert(0, {"type": "teleport", "seq_id": 0})
            frames.append(codec.frame("record", msgspec.msgpack.encode(record)))
    path.write_bytes(b"".join(frames))
    with TraceReader(path) as log:
        assert log.state_at(4).sequences
        with pytest.raises(TraceFormatError, match="Invalid value 'teleport'"):
            log.record(5)
