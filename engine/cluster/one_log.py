"""Merges the records of several instances into one log and renumbers them.

Each instance's records arrive in order, but one instance may lag far behind another. In the log, the operations of a
transfer are in causal order: `hold`, `arrive`, `send`. A record that arrives too early is queued, as are all later
records of its instance, including its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from engine.cluster.router import RoutedInstance
from engine.trace.log import TraceWriter
from engine.trace.operations import Arrive, Expire, Hold, Lookup, Lost, Op, Send, TransferFailed
from engine.trace.records import Capture, Header, InstanceFacts, Memory, StepRecord, Timing
from engine.trace.redaction import Redaction


class LoggedInstance(RoutedInstance, Protocol):
    """The part of an instance's interface that the log's header needs."""

    @property
    def num_threads(self) -> int: ...


class OneLog:
    """Merges the records of several instances into one log. Each instance's records stay in order."""

    def __init__(self, header: Header, instances: Sequence[LoggedInstance], path: Path | None, private: bool) -> None:
        """Begin the log. `header`: header of a log of one instance."""
        facts = [InstanceFacts(name=one.name, role=one.role, num_threads=one.num_threads) for one in instances]
        groups = [replace(group, instance=index) for index, one in enumerate(instances) for group in one.block_groups]
        merged = replace(header, block_groups=groups, instances=facts)
        self.writer = TraceWriter(merged, path, Redaction() if private else None)
        self._empty = [_empty(one) for one in instances]
        self._memory = list(self._empty)  # of each instance after its last record
        self._places: list[list[int]] = [[] for _ in instances]  # per instance: log indices of its records
        self._early = [deque[tuple[StepRecord, Capture | None]]() for _ in instances]  # received, not yet in the log
        self._num_steps = 0
        self._held: set[str] = set()
        self._arrived: set[str] = set()  # transfers without a `send` yet; includes those whose receiver has ended
        self._receivers: dict[str, int] = {}  # transfer -> instance that will receive it

    def take(self, instance: int, record: StepRecord, capture: Capture | None) -> list[StepRecord]:
        """Add the next record of an instance. Returns the records that were appended, usually this one."""
        self._early[instance].append((record, capture))
        return self._append_ready()

    def expect(self, transfer: str, receiver: int) -> None:
        """Note that the instance `receiver` will fetch a transfer."""
        self._receivers[transfer] = receiver

    def lost(self, instance: int, detail: str, at: float, given_up: Sequence[int]) -> list[StepRecord]:
        """Record the end of an instance, after its output. `given_up`: sequences that are not restarted elsewhere."""
        record = StepRecord(
            index=0,
            kind="lost",
            step=0,
            ops=[Lost(detail=detail, given_up=sorted(given_up))],
            timing=Timing(at=at),
            memory=self._empty[instance],
        )
        return self.take(instance, record, None)

    def _append_ready(self) -> list[StepRecord]:
        found = list[StepRecord]()
        changed = True
        while changed:
            changed = False
            for instance, early in enumerate(self._early):
                while early and not self._is_early(early[0][0].ops):
                    found.append(self._append(instance, *early.popleft()))
                    changed = True
        return found

    def _is_early(self, ops: Sequence[Op]) -> bool:
        """Return whether these operations depend on a record of another instance that is not in the log yet."""
        for op in ops:
            if isinstance(op, Send) and op.num_bytes and op.transfer not in self._arrived:
                return True
            if isinstance(op, Arrive) and op.transfer not in self._held:
                return True
        return False

    def _append(self, instance: int, record: StepRecord, capture: Capture | None) -> StepRecord:
        places, index = self._places[instance], len(self.writer)
        places.append(index)
        self._num_steps += record.kind == "step"
        self._memory[instance] = record.memory
        merged = replace(
            record,
            index=index,
            instance=instance,
            step=self._num_steps,
            ops=[_placed(op, places) for op in record.ops],
            memory=Memory.total(self._memory),
        )
        for op in record.ops:
            self._note(instance, op)
        self.writer.append(merged, None if capture is None else replace(capture, index=index))
        return merged

    def _note(self, instance: int, op: Op) -> None:
        match op:
            case Hold():
                self._held.add(op.transfer)
            case Arrive():
                self._receivers.pop(op.transfer, None)
                self._arrived.add(op.transfer)
            case TransferFailed():
                self._receivers.pop(op.transfer, None)
            case Send():
                self._held.discard(op.transfer)
                self._arrived.discard(op.transfer)
            case Expire():
                self._arrived.discard(op.transfer)
            case Lost():
                self._places[instance].clear()  # a restarted instance counts its records from 0
                unreported = [transfer for transfer, receiver in self._receivers.items() if receiver == instance]
                self._arrived.update(unreported)  # its last messages may be lost
                for transfer in unreported:
                    del self._receivers[transfer]
            case _:
                pass


def _empty(instance: LoggedInstance) -> Memory:
    config = instance.config
    return Memory.total(
        [
            Memory.counted(
                num_blocks=group.num_blocks,
                block_size=config.block_size,
                blocks_held=0,
                blocks_cached=0,
                tokens_held=0,
                tokens_logical=0,
                kv_bytes_per_token=group.kv_bytes_per_token,
                swap_blocks=config.swap_space or 0,
            )
            for group in instance.block_groups
        ]
    )


def _placed(op: Op, places: Sequence[int]) -> Op:
    """Return the operation with its record index converted to the merged log."""
    if isinstance(op, Lookup) and op.evicted_in is not None:
        return replace(op, evicted_in=places[op.evicted_in])
    return op
