"""Logs with a simulated pause: all clock readings after a given time are shifted."""

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from engine.trace.busy_time import step_seconds, transfer_span
from engine.trace.log import TraceReader, TraceWriter
from engine.trace.operations import Arrive
from engine.trace.records import StepRecord


def moments(log: TraceReader) -> list[float]:
    """Return clock readings at the end of steps and transfers at which nothing was in progress."""
    done = list[tuple[float, float]]()
    for record in (log.record(index) for index in range(len(log))):
        at = record.timing.at
        done += [(at - step_seconds(record.timing), at), transfer_span(record)]
    ends = sorted(end for _, end in done)
    return [end for end in ends if not any(start < end + 1e-9 < other for start, other in done)]


def paused(log: TraceReader, after: float, seconds: float) -> Iterator[StepRecord]:
    """Yield the records with clock readings after `after` increased by `seconds`."""

    def shifted(at: float) -> float:
        return at + seconds if at > after + 1e-9 else at

    for record in (log.record(index) for index in range(len(log))):
        ops = [
            replace(op, began=shifted(op.began), ended=shifted(op.ended)) if isinstance(op, Arrive) else op
            for op in record.ops
        ]
        yield replace(record, ops=ops, timing=replace(record.timing, at=shifted(record.timing.at)))


def write_paused(source: Path, target: Path, seconds: float) -> None:
    """Write the log of `source` with a pause in its middle."""
    with TraceReader(source) as log, TraceWriter(log.header, target) as writer:
        middle = moments(log)
        for record, index in zip(paused(log, middle[len(middle) // 2], seconds), range(len(log)), strict=True):
            writer.append(record, log.capture(index))
