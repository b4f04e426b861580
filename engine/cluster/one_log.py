"""Records of several instances, made into one log: what each counts for itself is counted over all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from engine.cluster.router import Served
from engine.trace.events import Lookup, Lost, Op, Send
from engine.trace.log import TraceWriter
from engine.trace.records import Capture, Header, InstanceFacts, Memory, StepRecord, Timing
from engine.trace.redaction import Redaction


class Logged(Served, Protocol):
    """An instance, as the log's header has it."""

    @property
    def num_threads(self) -> int: ...


class OneLog:
    """Takes the records of each instance in the order in which it wrote them."""

    def __init__(self, header: Header, instances: Sequence[Logged], path: Path | None, private: bool) -> None:
        """`header`: of a log of one of them alone."""
        facts = [InstanceFacts(name=one.name, role=one.role, num_threads=one.num_threads) for one in instances]
        groups = [replace(group, instance=index) for index, one in enumerate(instances) for group in one.block_groups]
        whole = replace(header, block_groups=groups, instances=facts)
        self.writer = TraceWriter(whole, path, Redaction() if private else None)
        self._empty = [_empty(one) for one in instances]
        self._memory = list(self._empty)  # of each after its last record
        self._places: list[list[int]] = [[] for _ in instances]  # of each: where its records stand in the log
        self._early: list[list[tuple[StepRecord, Capture | None]]] = [[] for _ in instances]
        self._num_steps = 0
        self._arrived: set[str] = set()  # transfers whose receiver has said so, and whose sender has not

    def take(self, instance: int, record: StepRecord, capture: Capture | None) -> list[StepRecord]:
        """What is appended to the log because of a record: usually itself. What a sender says of a transfer waits for
        what the receiver says of it.
        """
        self._early[instance].append((record, capture))
        return self._append_what_may()

    def lost(self, instance: int, detail: str, at: float, given_up: Sequence[int]) -> list[StepRecord]:
        """The instance has ended; what it wrote was taken before. `given_up`: sequences that nobody begins again."""
        found = [self._append(instance, *early) for early in self._early[instance]]  # nobody answers any more
        self._early[instance].clear()
        record = StepRecord(
            index=0,
            kind="lost",
            step=0,
            ops=[Lost(detail=detail, given_up=sorted(given_up))],
            timing=Timing(at=at),
            memory=self._empty[instance],
        )
        found.append(self._append(instance, record, None))
        self._places[instance].clear()  # one that is started anew counts its records from 0
        return [*found, *self._append_what_may()]

    def _append_what_may(self) -> list[StepRecord]:
        found = list[StepRecord]()
        going = True
        while going:
            going = False
            for instance, early in enumerate(self._early):
                while early and not self._waits(early[0][0].ops):
                    found.append(self._append(instance, *early.pop(0)))
                    going = True
        return found

    def _waits(self, ops: Sequence[Op]) -> bool:
        return any(isinstance(op, Send) and op.num_bytes and op.transfer not in self._arrived for op in ops)

    def _append(self, instance: int, record: StepRecord, capture: Capture | None) -> StepRecord:
        places, index = self._places[instance], len(self.writer)
        places.append(index)
        self._num_steps += record.kind == "step"
        self._memory[instance] = record.memory
        whole = replace(
            record,
            index=index,
            instance=instance,
            step=self._num_steps,
            ops=[_placed(op, places) for op in record.ops],
            memory=Memory.total(self._memory),
        )
        for op in record.ops:
            kind, transfer = op.__struct_config__.tag, getattr(op, "transfer", None)
            if transfer is not None and kind == "arrive":
                self._arrived.add(transfer)
            elif transfer is not None and kind in ("send", "expire"):
                self._arrived.discard(transfer)
        self.writer.append(whole, None if capture is None else replace(capture, index=index))
        return whole


def _empty(instance: Logged) -> Memory:
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
    """The operation with the record that it names as the common log counts them."""
    if isinstance(op, Lookup) and op.evicted_in is not None:
        return replace(op, evicted_in=places[op.evicted_in])
    return op
