"""Runs of a small model, folded into counts, for several tests."""

from functools import cache
from itertools import accumulate

from msgspec import structs

from app.metrics.fold import Fold
from app.metrics.tally import Tally
from engine.trace.busy_time import step_seconds
from engine.trace.records import Header, StepRecord
from engine.trace.request_account import RequestRow
from tests.unit.engine.runs import log_of, run


@cache
def recorded(name: str) -> tuple[Header, list[StepRecord]]:
    """Return the run's log, with a clock that only advances while the engine works."""
    with run(name) as engine:
        log = log_of(engine)
        records = [log.record(i) for i in range(len(log))]
    ends = accumulate(step_seconds(record.timing) for record in records)
    return log.header, [retimed(record, end) for record, end in zip(records, ends, strict=True)]


def retimed(record: StepRecord, at: float) -> StepRecord:
    return structs.replace(record, timing=structs.replace(record.timing, at=at))


def folded(header: Header, records: list[StepRecord]) -> tuple[Tally, Fold, list[RequestRow]]:
    tally = Tally(header.model.max_position)
    fold = Fold(header, tally)
    return tally, fold, [request for record in records for request in fold.read(record)]
