"""Work of each instance during a run, and transfers between instances. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.bench.errors import BenchError
from engine.trace.busy_time import step_seconds
from engine.trace.operations import Arrive, Lost, TransferFailed
from engine.trace.records import InstanceRole, StepRecord


@dataclass(slots=True)
class InstanceWork:
    """Work of an instance during a run."""

    role: InstanceRole
    busy_seconds: float = 0.0  # of its steps


@dataclass(slots=True)
class InstancesWork:
    """Work of several instances, and transfers between them."""

    each: list[InstanceWork]
    moved_bytes: int = 0
    move_seconds: list[float] = field(default_factory=list)  # of each transfer, from its start
    failed_transfers: int = 0
    rejected: int = 0  # requests that the router rejected as too late

    def add(self, record: StepRecord) -> None:
        """Read a record of the cluster's log.

        Raises:
            BenchError: an instance has ended.
        """
        if record.kind == "step":
            self.each[record.instance].busy_seconds += step_seconds(record.timing)
        for op in record.ops:
            match op:
                case Arrive():
                    self.moved_bytes += op.num_bytes
                    self.move_seconds.append(op.ended - op.began)
                case TransferFailed():
                    self.failed_transfers += 1
                case Lost():
                    raise BenchError(f"an instance ended during the measurement: {op.detail}")
                case _:
                    pass

    def idle_share(self, seconds: float, role: InstanceRole | None = None) -> float | None:
        """Return the idle share of instances (of a role) in a run of `seconds`; None without instances."""
        busy = [one.busy_seconds for one in self.each if role in (None, one.role)]
        return 1 - sum(busy) / (len(busy) * seconds) if busy and seconds else None
