"""The check finds contradictions of lookups, loads and stores outside the pool, and of leases."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engine.trace.check_loading import wrong_in_loading
from engine.trace.check_transfers import TransferChecker
from engine.trace.log import TraceReader
from engine.trace.operations import Admit, Expire, Load, LookupExternal, Op, Store
from engine.trace.records import StepRecord
from tests.unit.trace.two_instances import PREFILL, record

GOLDEN = Path(__file__).parents[2] / "golden" / "outside.kvtrace"


@pytest.fixture
def golden():
    with TraceReader(GOLDEN) as reader:
        yield reader


def records_with(golden: TraceReader, predicate: Callable[[Op], bool]) -> list[StepRecord]:
    found = [golden.record(index) for index in range(len(golden))]
    return [record for record in found if any(map(predicate, record.ops))]


def findings(golden: TraceReader, record: StepRecord) -> list[str]:
    return [message for _, message in wrong_in_loading(record, golden.state_at(record.index), golden.header)]


def changed(record: StepRecord, kind: type[Op], **fields: Any) -> StepRecord:
    """Return the record with its first operation of a kind changed."""
    ops = list(record.ops)
    place = next(i for i, op in enumerate(ops) if isinstance(op, kind))
    ops[place] = replace(ops[place], **fields)
    return replace(record, ops=ops)


def is_load(op: Op) -> bool:
    return isinstance(op, LookupExternal) and op.verdict == "load"


def test_the_golden_trace_has_every_case_and_no_finding(golden: TraceReader) -> None:
    verdicts, media = set(), set()
    for index in range(len(golden)):
        record = golden.record(index)
        assert findings(golden, record) == []
        verdicts |= {op.verdict for op in record.ops if isinstance(op, LookupExternal)}
        media |= {op.medium for op in record.ops if isinstance(op, Load)}
    assert (verdicts, media) == ({"load", "compute", "miss"}, {"cpu", "disk"})


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        (LookupExternal, {"verdict": "compute"}, "the verdict is compute, but"),
        (LookupExternal, {"num_found_tokens": 999}, "num_found_tokens is 999, but num_tokens is"),
        (LookupExternal, {"num_found_tokens": 1}, "are not whole blocks of 4"),
        (LookupExternal, {"num_found_tokens": 0, "media": []}, "0 tokens were found, but"),
        (LookupExternal, {"media": ["cpu"] * 99}, "media has 99 blocks, but"),
        (LookupExternal, {"load_seconds": float("nan")}, "load_seconds is nan"),
        (LookupExternal, {"compute_seconds": -1.0}, "compute_seconds is -1.0"),
        (Admit, {"num_external_tokens": 0}, "the verdict is load, but 0 external tokens are admitted"),
        (Admit, {"num_external_tokens": 3}, "are not whole blocks of 4"),
        (Load, {"logical": 99}, "logical block 99 of sequence"),
        (Load, {"block_hash": b"another"}, "is loaded with one hash, but cached with another"),
    ],
)
def test_contradictions_of_loading_are_found(
    golden: TraceReader, kind: type[Op], fields: dict[str, object], expected: str
) -> None:
    record = changed(records_with(golden, is_load)[0], kind, **fields)
    assert any(expected in message for message in findings(golden, record))


def test_a_missing_load_is_found(golden: TraceReader) -> None:
    record = records_with(golden, is_load)[0]
    loads = [op for op in record.ops if isinstance(op, Load)]
    without = replace(record, ops=[op for op in record.ops if op is not loads[0]])
    (finding,) = findings(golden, without)
    assert f"group {0 if loads[0].block_id < 12 else 1} loads" in finding


def test_external_tokens_need_a_lookup(golden: TraceReader) -> None:
    record = records_with(golden, is_load)[0]
    without = replace(record, ops=[op for op in record.ops if not isinstance(op, LookupExternal)])
    (finding,) = findings(golden, without)
    assert "no lookup_external found them" in finding


def test_a_store_has_the_hash_of_its_block(golden: TraceReader) -> None:
    record = records_with(golden, lambda op: isinstance(op, Store))[0]
    (finding,) = findings(golden, changed(record, Store, block_hash=b"another"))
    assert "is stored with one hash, but cached with another" in finding
    (finding,) = findings(golden, changed(record, Store, block_id=99))
    assert finding == "store: there is no block 99"


SUBMITTED, HELD = PREFILL  # held at 3.0 s for 30 s
SLOW = replace(HELD, timing=replace(HELD.timing, sample=0.25))  # the sequence may have ended at 2.75 s


def wrong(*records: StepRecord) -> list[str]:
    checker = TransferChecker()
    return [message for one in records for _, message in checker.wrong_in(one)]


def expired(at: float) -> StepRecord:
    return record(0, at, 0.0, [Expire(seq_id=0, transfer="X#1")], "transfer")


@pytest.mark.parametrize(
    ("held", "at", "until"),
    [
        (HELD, 33.0, None),
        (HELD, 32.999, "33.000000"),
        (SLOW, 32.999, None),
        (SLOW, 32.75, None),
        (SLOW, 32.749, "32.750000"),
    ],
)
def test_an_early_end_of_a_lease_is_found(held: StepRecord, at: float, until: str | None) -> None:
    messages = [f"expire: the lease of transfer X#1 lasts until {until} s"] if until else []
    assert wrong(SUBMITTED, held, expired(at)) == messages


def test_an_expired_transfer_that_is_not_held_is_found() -> None:
    assert wrong(SUBMITTED, expired(40.0)) == ["expire: this instance does not hold transfer X#1"]
    assert wrong(SUBMITTED, HELD, expired(40.0), expired(41.0)) == ["expire: this instance does not hold transfer X#1"]
