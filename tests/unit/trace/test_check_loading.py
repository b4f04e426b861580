"""External content and leases are consistent in a record: found, admitted, loaded, cached, stored, held."""

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


def records_with(golden: TraceReader, wanted: Callable[[Op], bool]) -> list[StepRecord]:
    found = [golden.record(index) for index in range(len(golden))]
    return [record for record in found if any(map(wanted, record.ops))]


def findings(golden: TraceReader, record: StepRecord) -> list[str]:
    return [message for _, message in wrong_in_loading(record, golden.state_at(record.index), golden.header)]


def changed(record: StepRecord, kind: type[Op], **fields: Any) -> StepRecord:
    """Return the trace with the first operation of a kind changed."""
    ops = list(record.ops)
    place = next(i for i, op in enumerate(ops) if isinstance(op, kind))
    ops[place] = replace(ops[place], **fields)
    return replace(record, ops=ops)


def is_loading(op: Op) -> bool:
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
def test_a_contradiction_is_named(
    golden: TraceReader, kind: type[Op], fields: dict[str, object], expected: str
) -> None:
    record = changed(records_with(golden, is_loading)[0], kind, **fields)
    assert any(expected in message for message in findings(golden, record))


def test_a_block_that_was_not_loaded_is_missed(golden: TraceReader) -> None:
    record = records_with(golden, is_loading)[0]
    loads = [op for op in record.ops if isinstance(op, Load)]
    without = replace(record, ops=[op for op in record.ops if op is not loads[0]])
    (finding,) = findings(golden, without)
    assert f"group {0 if loads[0].block_id < 12 else 1} loads" in finding


def test_tokens_are_external_only_where_they_were_found(golden: TraceReader) -> None:
    record = records_with(golden, is_loading)[0]
    without = replace(record, ops=[op for op in record.ops if not isinstance(op, LookupExternal)])
    (finding,) = findings(golden, without)
    assert "no lookup_external found them" in finding


def test_a_store_has_the_hash_of_its_block(golden: TraceReader) -> None:
    record = records_with(golden, lambda op: isinstance(op, Store))[0]
    (finding,) = findings(golden, changed(record, Store, block_hash=b"another"))
    assert "is stored with one hash, but cached with another" in finding
    (finding,) = findings(golden, changed(record, Store, block_id=99))
    assert finding == "store: there is no block 99"


SUBMITTED, HELD = PREFILL  # held in a record of 3.0 s, for 30 s
SLOWLY = replace(HELD, timing=replace(HELD.timing, sample=0.25))  # the sequence ended after 2.75 s


def wrong(*records: StepRecord) -> list[str]:
    book = TransferChecker()
    return [message for one in records for _, message in book.wrong_in(one)]


def expired(at: float) -> StepRecord:
    return record(0, at, 0.0, [Expire(seq_id=0, transfer="X#1")], "transfer")


@pytest.mark.parametrize(
    ("held", "at", "until"),
    [
        (HELD, 33.0, None),
        (HELD, 32.999, "33.000000"),
        (SLOWLY, 32.999, None),
        (SLOWLY, 32.75, None),
        (SLOWLY, 32.749, "32.750000"),
    ],
)
def test_a_lease_ends_no_sooner_than_it_may(held: StepRecord, at: float, until: str | None) -> None:
    messages = [f"expire: the lease of transfer X#1 lasts until {until} s"] if until else []
    assert wrong(SUBMITTED, held, expired(at)) == messages


def test_only_held_transfers_expire() -> None:
    assert wrong(SUBMITTED, expired(40.0)) == ["expire: this instance does not hold transfer X#1"]
    assert wrong(SUBMITTED, HELD, expired(40.0), expired(41.0)) == ["expire: this instance does not hold transfer X#1"]
