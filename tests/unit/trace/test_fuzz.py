"""Mutated files give the same answer or documented error from both readers.

`python -m tests.fuzz` does the same for a longer time.
"""

import copy
import random
import tracemalloc
from pathlib import Path

import msgspec
import pytest

from engine.trace import codec
from engine.trace.apply import apply
from engine.trace.check import check
from engine.trace.check_state import wrong_in_state
from engine.trace.codec import TraceFormatError
from engine.trace.log import TraceReader
from engine.trace.records import StepRecord
from engine.trace.state import TraceStateError, initial_state
from tests.fuzz.mutate import frames_of, joined, mutate
from tests.fuzz.run import fuzz, seeds

GOLDEN = Path(__file__).parents[2] / "golden"
FILES = 400
MEMORY = 64 << 20  # limit of allocated bytes; the seeds are smaller than 200 KB


@pytest.mark.slow
def test_both_readers_agree_on_mutated_files(tmp_path: Path) -> None:
    outcome = fuzz(0, tmp_path, files=FILES)
    assert not outcome.findings, outcome
    assert outcome.files == FILES and FILES // 20 < outcome.accepted < FILES, (
        "some files must be readable, and some not"
    )


def test_mutations_pass_the_checksums(tmp_path: Path) -> None:
    """Enough files must open, and enough must contradict the state, or only CRC-32 is tested."""
    draw, originals = random.Random(1), seeds()
    opened = contradicted = 0
    for _ in range(400):
        path = tmp_path / "mutated.kvtrace"
        path.write_bytes(mutate(draw.choice(originals), draw))
        try:
            with TraceReader(path) as reader:
                opened += 1
                reader.state_at(len(reader) - 1)
        except TraceStateError:
            contradicted += 1
        except TraceFormatError:
            pass
    assert opened > 200 and contradicted > 20, (opened, contradicted)


def test_reference_counts_agree_with_block_tables_after_any_operations() -> None:
    """Operations are changed, omitted, doubled or exchanged, and states that the reducer accepts are checked."""
    draw, accepted, refused = random.Random(2), 0, 0
    for path in sorted(GOLDEN.glob("*.kvtrace")):
        with TraceReader(path) as reader:
            state = initial_state(reader.header)
            for index in range(min(40, len(reader))):
                record = reader.record(index)
                for changed in (changed_operation(record, draw) for _ in range(2 if record.ops else 0)):
                    try:
                        after = apply(copy.deepcopy(state), changed)
                    except TraceStateError:
                        refused += 1
                    else:
                        accepted += 1
                        assert not [wrong for wrong in wrong_in_state(after, is_observed=True) if "ref_count" in wrong]
                apply(state, record)
    assert accepted > 50 and refused > 50, (accepted, refused)


def changed_operation(record: StepRecord, draw: random.Random) -> StepRecord:
    """Return the record with one operation omitted, doubled, exchanged, or with another number."""
    ops, at = list(record.ops), draw.randrange(len(record.ops))
    numbers = [name for name in ops[at].__struct_fields__ if type(getattr(ops[at], name)) is int]
    match draw.randrange(5):
        case 0:
            del ops[at]
        case 1:
            ops.insert(at, ops[at])
        case 2:
            other = draw.randrange(len(ops))
            ops[at], ops[other] = ops[other], ops[at]
        case _ if numbers:
            name = draw.choice(numbers)
            value = draw.choice([0, 1, getattr(ops[at], name) + 1, getattr(ops[at], name) - 1])
            ops[at] = msgspec.structs.replace(ops[at], **{name: value})
    return msgspec.structs.replace(record, ops=ops)


@pytest.mark.parametrize(("name", "value"), [("num_blocks", 1 << 62), ("swap_space", 1 << 40), ("block_size", -1)])
def test_a_header_of_huge_sizes_allocates_nothing(tmp_path: Path, name: str, value: int) -> None:
    frames = frames_of(seeds()[0])
    header = msgspec.msgpack.decode(frames[0][1])
    header["engine"][name] = value
    path = tmp_path / "greedy.kvtrace"
    path.write_bytes(joined([(1, codec.encode(header)), *frames[1:]]))
    tracemalloc.start()
    (finding,) = list(check(path))
    with TraceReader(path) as reader, pytest.raises(TraceStateError, match=f"engine.{name}"):
        reader.state_at(0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert f"engine.{name}" in finding.message and peak < MEMORY
