"""A lease in one log begins while tokens are processed, before the record's clock is read."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from engine.trace.check_transfers import TransferBook
from engine.trace.events import Expire
from engine.trace.records import StepRecord
from tests.unit.trace.two_instances import PREFILL, record

SUBMITTED, HELD = PREFILL  # held in a record of 3.0 s, for 30 s
SLOWLY = replace(HELD, timing=replace(HELD.timing, sample=0.25))  # the sequence ended after 2.75 s


def wrong(*records: StepRecord) -> list[str]:
    book = TransferBook()
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
    said = [f"expire: the lease of transfer X#1 lasts until {until} s"] if until else []
    assert wrong(SUBMITTED, held, expired(at)) == said


def test_what_is_not_held_does_not_expire() -> None:
    assert wrong(SUBMITTED, expired(40.0)) == ["expire: transfer X#1 is not held here"]
    assert wrong(SUBMITTED, HELD, expired(40.0), expired(41.0)) == ["expire: transfer X#1 is not held here"]
