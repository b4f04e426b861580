"""Checks of both sides of a transfer: only held blocks are received, and none is freed before that.

One log has both sides: a receiver's record comes after its sender's `hold` and before its sender's `send`. A receiver
that ended may have received blocks without reporting it. Leases are checked against the clock all instances share.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.trace.check_ops import Wrong
from engine.trace.operations import (
    Allocate,
    Arrive,
    Await,
    Copy,
    Expire,
    Fork,
    Free,
    Hold,
    Lost,
    Op,
    Receive,
    Release,
    Send,
    Share,
    TransferFailed,
)
from engine.trace.records import StepRecord


class _Held(NamedTuple):
    instance: int
    seq_id: int
    blocks: frozenset[int]
    earliest: float  # the lease began when the sequence ended, before the record's clock reading
    until: float  # deadline unless the lease is renewed, by the clock of the log
    lease: float  # seconds


class _Got(NamedTuple):
    blocks: frozenset[int]  # there
    num_bytes: int


class TransferBook:
    """Follows every transfer of a log with several instances. Pass each record in order."""

    def __init__(self) -> None:
        self._tables: dict[int, list[int]] = {}  # by sequence: its blocks
        self._held: dict[str, _Held] = {}
        self._got: dict[str, _Got] = {}  # by transfer that is held: what was received of it
        self._coming: dict[int, list[Receive]] = {}  # by sequence
        self._awaited: dict[str, int] = {}  # by transfer: the receiving instance
        self._silent: set[str] = set()  # transfers whose receiver ended while it awaited them
        self._freed_early: dict[str, tuple[_Held, float]] = {}  # freed without a reply of the receiver, and when
        self._last_at: dict[int, float] = {}  # by instance

    def wrong_in(self, record: StepRecord) -> Iterator[Wrong]:
        """Yield each contradiction between this record and earlier ones of other instances."""
        self._last_at[record.instance] = record.timing.at
        for place, op in enumerate(record.ops):
            for message in self._wrong(op, record):
                yield place, f"{op.__struct_config__.tag}: {message}"

    def unreceived(self) -> Iterator[str]:
        """Yield transfers never received that the log still holds more than one lease past their deadline."""
        for transfer, held in self._held.items():
            if transfer not in self._got and self._last_at[held.instance] > held.until + held.lease:
                yield f"the lease of transfer {transfer} ended at {held.until:.6f} s, and its blocks are still held"

    def _wrong(self, op: Op, record: StepRecord) -> Iterator[str]:
        match op:
            case Allocate() | Share():
                self._tables.setdefault(op.seq_id, []).append(op.block_id)
            case Copy():
                self._tables[op.seq_id].remove(op.src)
            case Fork():
                self._tables[op.seq_id] = list(self._tables.get(op.parent_seq_id, []))
            case Free() | Release():
                if op.block_id in self._tables.get(op.seq_id, []):
                    self._tables[op.seq_id].remove(op.block_id)
            case Hold():
                if op.transfer in self._held:
                    yield f"transfer {op.transfer} is held already"
                blocks, until = frozenset(self._tables.get(op.seq_id, [])), record.timing.at + op.lease
                earliest = until - record.timing.sample
                self._held[op.transfer] = _Held(record.instance, op.seq_id, blocks, earliest, until, op.lease)
            case Await():
                self._awaited[op.transfer] = record.instance
            case TransferFailed():
                self._awaited.pop(op.transfer, None)
            case Receive():
                self._coming.setdefault(op.seq_id, []).append(op)
            case Arrive():
                yield from self._arrives(op, record)
            case Send():
                yield from self._sent(op, record)
            case Expire():
                held = self._held.pop(op.transfer, None)
                if held is None or held.instance != record.instance:
                    yield f"transfer {op.transfer} is not held here"
                elif record.timing.at < held.earliest:
                    yield f"the lease of transfer {op.transfer} lasts until {held.earliest:.6f} s"
                self._forget(op.transfer, held, record)
            case Lost():
                self._silent.update(t for t, receiver in self._awaited.items() if receiver == record.instance)
                for transfer in [t for t, held in self._held.items() if held.instance == record.instance]:
                    self._forget(transfer, self._held.pop(transfer), record)
            case _:
                pass

    def _forget(self, transfer: str, held: _Held | None, record: StepRecord) -> None:
        self._got.pop(transfer, None)
        if held is not None:
            self._freed_early[transfer] = (held, record.timing.at)

    def _arrives(self, op: Arrive, record: StepRecord) -> Iterator[str]:
        self._awaited.pop(op.transfer, None)
        came = self._coming.pop(op.seq_id, [])
        held = self._held.get(op.transfer)
        if sum(one.num_bytes for one in came) != op.num_bytes:
            yield f"{op.num_bytes} bytes arrived, and the blocks received have {sum(one.num_bytes for one in came)}"
        if not op.began <= op.ended <= record.timing.at:
            yield f"it began at {op.began} s and ended at {op.ended} s, and the record is of {record.timing.at} s"
        if held is None and op.transfer in self._freed_early:  # the blocks may have been read before they were freed
            held, at = self._freed_early[op.transfer]
            if op.began > at:  # `ended` is the receiver's reading, perhaps later
                held = None
        if held is None:
            yield f"transfer {op.transfer} is held by no instance: nothing can have arrived"
            return
        if held.instance == record.instance:
            yield f"transfer {op.transfer} is held by the instance that receives it"
        foreign = {one.from_block_id for one in came} - held.blocks
        if foreign:
            yield f"block {min(foreign)} was received, and transfer {op.transfer} does not hold it"
        self._got[op.transfer] = _Got(frozenset(one.from_block_id for one in came), op.num_bytes)

    def _sent(self, op: Send, record: StepRecord) -> Iterator[str]:
        held, got = self._held.pop(op.transfer, None), self._got.pop(op.transfer, None)
        if held is None or held.instance != record.instance:
            yield f"transfer {op.transfer} is not held here"
            return
        if op.num_bytes and got is None and op.transfer not in self._silent:
            yield f"send reports {op.num_bytes} bytes received, and no record receives them"
        elif got is not None and (op.num_bytes, frozenset(op.block_ids)) != (got.num_bytes, got.blocks):
            yield f"{op.num_bytes} bytes of {len(op.block_ids)} blocks went, {got.num_bytes} of {len(got.blocks)} came"
