"""`trace check` has no finding in a valid file, and names each kind of contradiction with its byte."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from engine.trace import codec
from engine.trace.check import Counts, check
from engine.trace.log import TraceReader
from engine.trace.operations import Lookup, Submit
from engine.trace.records import AttentionRows, Capture, Header, LayerCapture, StepRecord

replace = msgspec.structs.replace
Frames = list[tuple[str, Any]]


@pytest.fixture
def frames(header: Header, records: list[StepRecord]) -> Frames:
    """Return the small run with batches, and captured arrays for its decode step."""
    prefill, decode = records[1], records[2]
    batch = {"seq_id": 0, "samples": True}
    prefill = _with_batch(
        prefill, {**batch, "phase": "prefill", "start": 0, "token_ids": [65, 66, 67], "context_len": 3}
    )
    decode = _with_batch(decode, {**batch, "phase": "decode", "start": 3, "token_ids": [68], "context_len": 4})
    decode = replace(decode, has_capture=True)
    return [
        ("header", header), ("record", records[0]), ("record", prefill), ("record", decode), ("capture", capture()),
    ]  # fmt: skip


def _with_batch(record: StepRecord, entry: dict[str, Any]) -> StepRecord:
    plain = msgspec.to_builtins(record, builtin_types=(bytes,))
    return msgspec.convert({**plain, "batch": [entry]}, StepRecord)


def capture(**changes: Any) -> Capture:
    """Return two query heads over the four keys of the decoded token: [H=2, R=1, C=4], q [1, 4, 4], k and v [1,
    2, 4].
    """
    weights = np.full((2, 1, 4), 0.25, np.float16)
    rows = AttentionRows(seq_id=0, query_start=3, key_start=0, heads=[0, 1], weights=weights)
    kv = np.zeros((1, 2, 4), np.float16)
    layer = LayerCapture(layer=1, q=np.zeros((1, 4, 4), np.float16), k=kv, v=kv, rows=[rows])
    fields = {"layer", "q", "k", "v"} & changes.keys()
    rows = replace(rows, **{k: v for k, v in changes.items() if k in AttentionRows.__struct_fields__})
    layer = replace(layer, rows=[rows], **{k: changes[k] for k in fields})
    return Capture(index=changes.get("index", 2), dtype=changes.get("dtype", "float16"), layers=[layer])


@pytest.fixture
def findings(tmp_path: Path) -> Callable[[Frames], list[str]]:
    def write_and_check(frames: Frames) -> list[str]:
        path = tmp_path / "a.kvtrace"
        data = codec.MAGIC
        for kind, value in frames:
            data += codec.frame(kind, codec.encode(value))  # type: ignore[arg-type]
        path.write_bytes(data)
        return [str(finding) for finding in check(path)]

    return write_and_check


Check = Callable[[Frames], list[str]]


def test_a_valid_file_has_no_finding(frames: Frames, findings: Check, tmp_path: Path) -> None:
    assert findings(frames) == []
    counts = Counts()
    list(check(tmp_path / "a.kvtrace", counts))
    assert (counts.num_records, counts.num_captures) == (3, 1)
    with TraceReader(tmp_path / "a.kvtrace") as reader:
        keyframe = reader.state_at(2)
    assert findings([*frames, ("keyframe", keyframe)]) == []
    wrong = replace(keyframe, free_queues=[[1, 2, 0, 3]], step=7)
    (finding,) = findings([*frames, ("keyframe", wrong)])
    assert finding.endswith("record 2: the keyframe differs from the state after the operations in step, free_queues")
    (finding,) = findings([*frames, ("keyframe", replace(keyframe, index=1))])
    assert finding.endswith("does not match this log: its index is 1")


def changed(frames: Frames, place: int, /, **fields: Any) -> Frames:
    return [(k, replace(v, **fields) if i == place else v) for i, (k, v) in enumerate(frames)]


def test_a_finding_has_the_byte_of_its_frame(frames: Frames, findings: Check, tmp_path: Path) -> None:
    (finding,) = findings(changed(frames, 3, step=5))
    with TraceReader(tmp_path / "a.kvtrace") as reader:
        offset = reader._records[2].offset - codec.FRAME_OVERHEAD
    assert finding == f"byte {offset}, record 2: step is 5, but must be 2 in this record of kind step"


def test_a_finding_names_the_operation(frames: Frames, findings: Check) -> None:
    """Block 3 is allocated although 0 is first in the free queue."""
    record: StepRecord = frames[2][1]
    ops = [replace(op, block_id=3) if type(op).__name__ == "Allocate" else op for op in record.ops]
    (finding,) = findings(changed(frames, 2, ops=ops))
    assert ", record 1, operation 1: (allocate) contradicts the state: block 3 is not" in finding
    assert finding.endswith("the state is unknown from here on")


@pytest.mark.parametrize(
    ("index", "fields", "expected"),
    [
        (0, {"kv_bytes_per_token": 32}, "memory.bytes_held is 256, but the operations make it 128"),
        (0, {"kv_bytes_per_token": 0}, "kv_bytes_per_token is 0"),
        (0, {"engine": {"num_blocks": 1 << 60, "block_size": 2}}, "engine.num_blocks"),
        (0, {"engine": {"num_blocks": 4}}, "engine.block_size"),
        (0, {"version": 2}, "version 2; supported is 'kvtrace' 1"),
        (1, {"index": 4}, "its index is 4"),
        (2, {"outputs": []}, "sequence 0 has no output 68"),
        (2, {"batch": []}, "operation 4: the write of sequence 0 at 0 is not in the batch"),
        (2, {"kind": "abort"}, "a record of kind abort must not have a batch"),
        (2, {"has_capture": True}, "has_capture is true, but no capture follows"),
        (3, {"has_capture": False}, "a capture follows, although has_capture is false"),
    ],
)
def test_contradictions_of_a_record_are_found(
    frames: Frames, findings: Check, index: int, fields: dict[str, Any], expected: str
) -> None:
    found = findings(changed(frames, index, **fields))
    assert any(expected in finding for finding in found), found


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"index": 1}, "the capture has the index 1"),
        ({"dtype": "bfloat16"}, "dtype is 'bfloat16'"),
        ({"dtype": "float32"}, "q is float16, but the capture's dtype is float32"),
        ({"layer": 2}, "there is no layer 2; the model has 2"),
        ({"k": np.zeros((2, 2, 4), np.float16)}, "k has shape [2, 2, 4], but batch and model require [1, 2, 4]"),
        ({"q": np.zeros((1, 2, 4), np.float16)}, "q has shape [1, 2, 4], but batch and model require [1, 4, 4]"),
        ({"seq_id": 1}, "rows of sequence 1, which is not in the batch"),
        ({"heads": [0, 4]}, "heads is [0, 4], but the model has 4 heads"),
        ({"heads": [0]}, "weights are of 2 heads, but heads is [0]"),
        ({"query_start": 2}, "queries are 2 to 2, but the step computed 3 to 3"),
        ({"key_start": 1}, "keys are 1 to 4 of a context of 4"),
        ({"weights": np.full((2, 1, 4), 0.5, np.float16)}, "a row of weights sums to 2.0000"),
        ({"weights": np.full((2, 1, 4), -0.25, np.float16)}, "weights are negative, infinite or NaN"),
        ({"weights": np.full((2, 1, 4), np.nan, np.float16)}, "weights are negative, infinite or NaN"),
        ({"weights": np.full((2, 4), 0.25, np.float16)}, "weights have 2 axes instead of 3"),
    ],
)
def test_invalid_arrays_of_a_capture_are_found(
    frames: Frames, findings: Check, fields: dict[str, Any], expected: str
) -> None:
    found = findings([*frames[:4], ("capture", capture(**fields))])
    assert (len(found) == 1 or "dtype" in fields) and expected in found[0], found


@pytest.mark.parametrize(("dtype", "num_findings"), [("float32", 1), ("bfloat16", 0)])
def test_sums_of_16_bit_weights_have_a_larger_tolerance(
    frames: Frames, findings: Check, dtype: str, num_findings: int
) -> None:
    """The capture has four float32 weights of 0.25 + 2^-9, which is the spacing of bfloat16 numbers there."""
    header = replace(frames[0][1], model=replace(frames[0][1].model, dtype=dtype))
    weights, zeros = np.full((2, 1, 4), 0.25 + 2**-9, np.float32), np.zeros((1, 4, 4), np.float32)
    arrays = capture(dtype="float32", weights=weights, q=zeros, k=zeros[:, :2], v=zeros[:, :2])
    found = findings([("header", header), *frames[1:4], ("capture", arrays)])
    assert len(found) == num_findings and all("a row of weights sums to 1.0078" in finding for finding in found)


def test_misplaced_captures_are_found(frames: Frames, findings: Check) -> None:
    (finding,) = findings([*frames, frames[4]])
    assert finding.endswith("the record has a second capture")
    assert findings([frames[0], frames[4], *frames[1:]])[0].endswith("a capture precedes the first record")


@pytest.mark.parametrize(
    ("index", "place", "fields", "expected"),
    [
        (
            1,
            0,
            {"prompt_token_bytes": [b"A", b"B"]},
            "(submit) contradicts the state: 3 prompt tokens stand for 2 texts",
        ),
        (1, 0, {"prompt_token_ids": [65, 66, 256]}, "submit: token 256 is not in the vocabulary of 256"),
        (2, 3, {"token_ids": [65]}, "cache: token_ids are not the 2 tokens of sequence 0 from position 0"),
        (2, 3, {"token_ids": [65, 67]}, "cache: token_ids are not the 2 tokens of sequence 0 from position 0"),
        (2, 3, {"seq_id": 5}, "(cache) contradicts the state: there is no sequence 5"),
    ],
)
def test_invalid_references_of_operations_are_found(
    frames: Frames, findings: Check, index: int, place: int, fields: dict[str, Any], expected: str
) -> None:
    record: StepRecord = frames[index][1]
    ops = [replace(op, **fields) if i == place else op for i, op in enumerate(record.ops)]
    found = findings(changed(frames, index, ops=ops))
    assert any(f"operation {place}: " in finding and expected in finding for finding in found), found


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"block_ids": [4]}, "there is no block 4"),
        ({"lost_block_id": -1}, "there is no block -1"),
        ({"closest_seq_id": 3}, "there is no sequence 3"),
        ({"evicted_for": 3}, "there is no sequence 3"),
        ({"evicted_in": 2}, "evicted_in is 2, but this is record 1"),
        ({"num_hit_tokens": 4}, "num_hit_tokens is 4, but num_tokens is 3"),
    ],
)
def test_invalid_references_of_lookups_are_found(
    frames: Frames, findings: Check, fields: dict[str, Any], expected: str
) -> None:
    lookup = Lookup(seq_id=0, verdict="miss", num_tokens=3, num_hit_tokens=0, block_ids=[])
    record: StepRecord = frames[2][1]
    assert findings(changed(frames, 2, ops=[lookup, *record.ops])) == []
    (finding,) = findings(changed(frames, 2, ops=[replace(lookup, **fields), *record.ops]))
    assert finding.endswith(f"operation 0: lookup: {expected}")


def test_a_hit_on_a_block_with_other_tokens_is_found(frames: Frames, findings: Check) -> None:
    """The operation is possible, but the state is inconsistent."""
    from engine.trace.operations import Admit, Share

    submit = Submit(
        seq_id=1, queue_position=0, request_id="b", prompt_token_ids=[65, 70, 67],
        prompt_token_bytes=[b"A", b"F", b"C"], max_tokens=1,
    )  # fmt: skip
    last: StepRecord = frames[3][1]
    ops = [
        submit,
        Admit(seq_id=1, num_cached_tokens=2, resumed=False),
        Share(seq_id=1, block_id=0, logical=0, revived=True),
    ]
    record = replace(last, index=3, step=3, ops=ops, batch=[], outputs=[], has_capture=False)
    found = findings([*frames, ("record", record)])
    assert any(
        "block 0 is in the block table of sequence 1 at position 0, but holds other tokens" in finding
        for finding in found
    )


def test_damage_is_found_and_earlier_records_are_checked(frames: Frames, findings: Check, tmp_path: Path) -> None:
    findings(frames)
    path = tmp_path / "a.kvtrace"
    data = path.read_bytes()
    path.write_bytes(data[:-3])
    found = [str(finding) for finding in check(path)]
    assert len(found) == 2 and "the file ends inside the capture" in found[0] and "no capture follows" in found[1]
    path.write_bytes(data[:40] + b"\xff" + data[41:])
    (finding,) = [str(finding) for finding in check(path)]
    assert "byte 8: the header at byte 8 fails its checksum; nothing after it was read" in finding
    path.write_bytes(b"hello")
    assert [f.offset for f in check(path)] == [0]
    path.write_bytes(codec.MAGIC)
    assert "the file ends inside a frame head at byte 8" in str(next(iter(check(path))))


def test_a_keyframe_that_is_no_state_is_found(frames: Frames, findings: Check) -> None:
    found = findings([*frames, ("keyframe", {"index": 2, "block_size": "two"})])
    assert len(found) == 1 and "not a valid State" in found[0]


@pytest.mark.parametrize(
    ("record", "place", "reason", "sentence"),
    [
        (1, 1, "resume", "allocate: the reason is resume, but no such admit precedes"),
        (1, 1, "copy", "allocate: the reason is copy, but no copy follows"),
        (1, 2, "swap_in", "allocate: the reason is swap_in, but no swap_in follows"),
        (2, 2, "preempt", "free: the reason is preempt, but no preempt of sequence 0 follows"),
        (2, 3, "swap", "free: the reason is swap, but no preempt by swap of sequence 0 follows"),
    ],
)
def test_a_reason_without_its_operation_is_found(
    frames: Frames, findings: Check, record: int, place: int, reason: str, sentence: str
) -> None:
    kind, value = frames[record + 1]
    ops = [*value.ops]
    ops[place] = replace(ops[place], reason="admission" if record == 1 else "finish")
    frames[record + 1] = kind, replace(value, ops=ops)
    assert findings(frames) == []
    ops[place] = replace(ops[place], reason=reason)
    frames[record + 1] = kind, replace(value, ops=ops)
    [found] = findings(frames)
    assert f"record {record}, operation {place}" in found and found.endswith(sentence)
