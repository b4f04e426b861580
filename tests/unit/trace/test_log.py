"""Trace files are read back, and damage is located without loss of earlier records."""

import errno
import os
import sys
import threading
from array import array
from pathlib import Path

import msgspec
import numpy as np
import pytest

from engine.trace import codec, frames
from engine.trace.codec import TraceFormatError
from engine.trace.log import KEYFRAME_INTERVAL, MAX_PIECES, TraceReader, TraceWriter
from engine.trace.operations import Submit
from engine.trace.records import AttentionRows, Capture, Header, LayerCapture, StepRecord, Timing
from engine.trace.state import TraceStateError, initial_state, memory_figures


def submit_records(header: Header, count: int) -> list[StepRecord]:
    memory = memory_figures(initial_state(header))
    return [
        StepRecord(
            index=i,
            kind="submit",
            step=0,
            ops=[
                Submit(
                    seq_id=i,
                    queue_position=i,
                    request_id=f"r{i}",
                    prompt_token_ids=[65],
                    prompt_token_bytes=[b"\xe6\x98"],
                    max_tokens=1,
                )
            ],
            timing=Timing(at=float(i)),
            memory=memory,
        )
        for i in range(count)
    ]


def write_log(path: Path, header: Header, records: list[StepRecord]) -> Path:
    writer = TraceWriter(header, path)
    for record in records:
        writer.append(record)
    writer.close()
    return path


def test_records_round_trip(tmp_path: Path, header: Header, records: list[StepRecord]) -> None:
    with TraceReader(write_log(tmp_path / "a.kvtrace", header, records)) as reader:
        assert reader.header == header and reader.damage is None
        assert [reader.record(i) for i in range(len(reader))] == records


def test_a_records_bytes_are_those_of_the_codec(tmp_path: Path, header: Header, records: list[StepRecord]) -> None:
    writer = TraceWriter(header, tmp_path / "a.kvtrace")
    for record in records:
        writer.append(record)
    with TraceReader(tmp_path / "a.kvtrace") as reader:
        for i in range(len(records)):
            assert reader.record_bytes(i) == writer.record_bytes(i) == codec.encode(records[i])
    writer.close()


def test_keyframes_of_a_long_log_do_not_outgrow_its_records(header: Header) -> None:
    records = submit_records(header, 40 * KEYFRAME_INTERVAL)
    with TraceWriter(header) as writer:
        for record in records:
            writer.append(record)
        record_bytes = sum(writer.num_record_bytes(i) for i in range(len(records)))
        lengths = [frame.length for frame in writer._keyframes.values()]
        assert 3 < len(lengths) < 40 and sum(lengths) <= 2 * record_bytes, "keyframes take too many bytes"
        assert writer.state_at(len(records) - 1) == writer.state_now()


def test_state_at_agrees_with_and_without_keyframes(tmp_path: Path, header: Header) -> None:
    records = submit_records(header, 2 * KEYFRAME_INTERVAL + 5)
    writer = TraceWriter(header, tmp_path / "a.kvtrace")
    states = []
    for record in records:
        writer.append(record)
        states.append(writer.state_now())
    with TraceReader(tmp_path / "a.kvtrace") as reader:
        for i in (0, KEYFRAME_INTERVAL - 1, KEYFRAME_INTERVAL, KEYFRAME_INTERVAL + 1, len(records) - 1):
            assert reader.state_at(i) == states[i]
        reader._keyframes.clear()
        assert reader.state_at(len(records) - 1) == states[-1]
    writer.close()


def test_captures_keep_dtype_and_shape(header: Header, records: list[StepRecord]) -> None:
    rows = AttentionRows(
        seq_id=0, query_start=2, key_start=0, heads=[0, 1], weights=np.full((2, 1, 3), 1 / 3, dtype=np.float16)
    )
    layer = LayerCapture(
        layer=0,
        q=np.arange(8, dtype=np.float32).reshape(1, 2, 4),
        k=np.zeros((1, 2, 4), np.float16),
        v=np.zeros((0, 2, 4), np.float16),
        rows=[rows],
    )
    with TraceWriter(header) as writer:
        first = StepRecord(
            index=0,
            kind="submit",
            step=0,
            ops=records[0].ops,
            timing=records[0].timing,
            memory=records[0].memory,
            has_capture=True,
        )
        writer.append(first, Capture(index=0, dtype="float16", layers=[layer]))
        capture = writer.capture(0)
    assert capture is not None
    assert capture.layers[0].q.dtype == np.float32 and (capture.layers[0].q == layer.q).all()
    assert capture.layers[0].v.shape == (0, 2, 4)
    assert capture.layers[0].rows[0].weights.dtype == np.float16


def test_a_record_out_of_order_is_not_written(header: Header, records: list[StepRecord]) -> None:
    with TraceWriter(header) as writer:
        before = writer.num_bytes
        with pytest.raises(TraceStateError):
            writer.append(records[1])
        assert len(writer) == 0 and writer.num_bytes == before


def test_a_refused_record_leaves_the_state_unchanged(header: Header, records: list[StepRecord]) -> None:
    """The second operation contradicts the state after the first one has been applied."""
    bad = msgspec.structs.replace(records[1], ops=[*records[1].ops[:2], records[1].ops[1]])
    with TraceWriter(header) as writer:
        writer.append(records[0])
        before = writer.state_now()
        with pytest.raises(TraceStateError):
            writer.append(bad)
        assert writer.state_now() == before
        writer.append(records[1])


def test_a_log_on_a_full_disk_ends_with_the_last_complete_record(
    tmp_path: Path, header: Header, records: list[StepRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten bytes of the second record fit on the disk."""
    path = tmp_path / "a.kvtrace"
    writer = TraceWriter(header, path)
    writer.append(records[0])
    state, size, write = writer.state_now(), writer.num_bytes, os.writev

    def writev(fd: int, pieces: list[bytes]) -> int:
        if fd != writer.fileno():
            return write(fd, pieces)
        if path.stat().st_size >= size + 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, [b"".join(pieces)[:10]])

    monkeypatch.setattr(os, "writev", writev)
    with pytest.raises(OSError, match="No space left"):
        writer.append(records[1])
    assert len(writer) == 1 and writer.num_bytes == size and writer.state_now() == state
    with pytest.raises(OSError, match="the log ended after 1 records: No space left on device"):
        writer.append(records[1])
    writer.close()
    with TraceReader(path) as reader:
        assert reader.damage is None and reader.record(0) == records[0] and len(reader) == 1


@pytest.mark.parametrize("cut", [1, 5, 9, 30])
def test_a_truncated_file_keeps_its_complete_records(
    tmp_path: Path, header: Header, records: list[StepRecord], cut: int
) -> None:
    path = write_log(tmp_path / "a.kvtrace", header, records)
    data = path.read_bytes()
    last = len(data) - len(codec.frame("record", codec.encode(records[-1])))
    path.write_bytes(data[: last + cut])
    with TraceReader(path) as reader:
        assert len(reader) == len(records) - 1
        assert reader.damage is not None and f"byte {last}" in reader.damage
        assert reader.record(1) == records[1]


def test_a_flipped_byte_is_found_at_its_frame(tmp_path: Path, header: Header, records: list[StepRecord]) -> None:
    path = write_log(tmp_path / "a.kvtrace", header, records)
    data = bytearray(path.read_bytes())
    sizes = [len(codec.frame("record", codec.encode(r))) for r in records]
    second = len(data) - sizes[2] - sizes[1]
    data[second + codec.FRAME_OVERHEAD + 3] ^= 0xFF
    path.write_bytes(bytes(data))
    with TraceReader(path) as reader:
        assert len(reader) == 1 and reader.damage is not None
        assert f"byte {second} fails its checksum" in reader.damage


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04", b"KVTRACE\x02", b"KVTRACE\x01", b"KVTRACE\x01\x09" + b"\0" * 8]
)
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.kvtrace"
    path.write_bytes(content)
    with pytest.raises(TraceFormatError) as error:
        TraceReader(path)
    assert "\n" not in str(error.value)


def test_a_false_length_allocates_nothing(tmp_path: Path, header: Header) -> None:
    path = write_log(tmp_path / "a.kvtrace", header, [])
    with path.open("ab") as file:
        file.write(b"\x02\xff\xff\xff\x0f" + b"\0" * 4)  # a record with length 268,435,455
    with TraceReader(path) as reader:
        assert len(reader) == 0 and reader.damage is not None


def test_arrays_with_false_shapes_are_refused(header: Header) -> None:
    def array(data: bytes) -> bytes:
        return msgspec.msgpack.encode({"layer": 0, "q": msgspec.msgpack.Ext(1, data), "k": 1, "v": 1, "rows": []})

    huge = b"\x01\x02" + b"\xff\xff\xff\xff" * 2
    for data in (b"", b"\x07\x00", huge, b"\x01\x09", b"\x01\x01\x02\x00\x00\x00\x00"):
        with pytest.raises(TraceFormatError):
            codec.decode(array(data), LayerCapture)


def test_a_frame_counts_after_all_of_its_columns_are_appended() -> None:
    found = frames.RecordFrames()

    class CheckedColumn(array):  # type: ignore[type-arg]
        def append(self, value: int) -> None:
            assert len(list(found)) == len(found)
            super().append(value)
            assert len(list(found)) == len(found)

    for name, kind in (("_offsets", "Q"), ("_lengths", "I"), ("_checksums", "I")):
        setattr(found, name, CheckedColumn(kind))
    for index in range(3):
        found.append(codec.Frame("record", index, 1, 0))
    assert len(list(found)) == 3


def test_records_can_be_read_during_appends(header: Header, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads switch every microsecond, and a keyframe follows each record."""
    monkeypatch.setattr(TraceWriter, "_is_keyframe_due", lambda self, index: True)
    interval = sys.getswitchinterval()
    records = submit_records(header, 300)
    failures: list[BaseException] = []
    with TraceWriter(header) as writer:

        def read() -> None:
            try:
                while (count := len(writer)) < len(records):
                    for i in range(max(0, count - 3), count):
                        assert writer.record(i) == records[i]
                    assert len(writer.state_at(count - 1).waiting) == count
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=read) for _ in range(3)]
        sys.setswitchinterval(1e-6)
        try:
            for thread in threads:
                thread.start()
            for record in records:
                writer.append(record)
            for thread in threads:
                thread.join(30)
        finally:
            sys.setswitchinterval(interval)
    assert not failures


def test_subscribers_are_notified_after_a_record_is_readable(header: Header) -> None:
    notified: list[tuple[int, int]] = []
    with TraceWriter(header) as writer:
        unsubscribe = writer.subscribe(
            lambda record: notified.append((record.index, writer.record(record.index).index))
        )
        for record in submit_records(header, 3):
            writer.append(record)
        unsubscribe()
        for record in submit_records(header, 4)[3:]:
            writer.append(record)
    assert notified == [(0, 0), (1, 1), (2, 2)]


def test_a_long_file_is_scanned_once_until_it_changes(
    tmp_path: Path, header: Header, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "MIN_CACHED_RECORDS", 5)
    scans: list[Path | None] = []
    walk = TraceReader._index_frames

    def count_scan(self: TraceReader, fd: int, size: int, verify: bool, offset: int) -> None:
        scans.append(self.path)
        walk(self, fd, size, verify, offset)

    monkeypatch.setattr(TraceReader, "_index_frames", count_scan)
    path = write_log(tmp_path / "a.kvtrace", header, submit_records(header, 8))
    for _ in range(3):
        with TraceReader(path, verify=False) as log:
            assert len(log) == 8 and log.record(7).index == 7 and not log.damage
    assert len(scans) == 1
    with TraceReader(path) as log:
        assert len(log) == 8
    assert len(scans) == 2
    data = path.read_bytes()
    path.write_bytes(data[:-3])
    with TraceReader(path, verify=False) as log:
        assert len(log) == 7 and log.damage
    assert len(scans) == 3


def test_captures_of_all_sizes_are_read_back(header: Header, records: list[StepRecord]) -> None:
    """The third has more arrays than are written at once."""
    sizes = [10, 1 << 22, 1 << 15, 20]  # counts of float32 numbers
    with TraceWriter(header) as writer:
        for index, size in enumerate(sizes):
            record = msgspec.structs.replace(records[0], index=index, ops=[], has_capture=True)
            numbers = np.full((1, 1, size), index, np.float32)
            layer = LayerCapture(layer=0, q=numbers, k=numbers[..., :1], v=numbers[..., :1], rows=[])
            layers = [layer] * (MAX_PIECES if index == 2 else 1)
            writer.append(record, Capture(index=index, dtype="float32", layers=layers))
        for index, size in enumerate(sizes):
            found = writer.capture(index)
            assert (
                found is not None and found.layers[-1].q.shape == (1, 1, size) and (found.layers[-1].q == index).all()
            )


def test_a_reader_reads_appended_records(tmp_path: Path) -> None:
    """A partial record is ignored until it is complete."""
    for source in sorted((Path(__file__).parents[2] / "golden").glob("*.kvtrace")):
        data = source.read_bytes()
        with TraceReader(source) as log:
            record_frames = [log.record_frame(index) for index in range(len(log))]
        cut = record_frames[len(record_frames) // 2].offset + 3
        path = tmp_path / source.name
        path.write_bytes(data[:cut])
        with TraceReader(path, verify=False) as growing, TraceReader(source) as expected:
            assert len(growing) == len(record_frames) // 2 and growing.read_on() == len(growing)
            with path.open("ab") as file:
                file.write(data[cut:])
            assert growing.read_on() == len(expected) and growing.damage is None
            assert growing.num_captures == expected.num_captures
            last = len(expected) - 1
            assert growing.record_bytes(last) == expected.record_bytes(last)
            assert growing.state_at(last) == expected.state_at(last)
