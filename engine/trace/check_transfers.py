"""Checks of both sides of a transfer: only held blocks are received, and none of them is freed earlier.

One log has both sides: a receiver's record comes after its sender's `hold` and before its sender's `send`. A receiver
that was lost may have received blocks without reporting it. Leases are checked against the clock of all instances.
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


class _Received(NamedTuple):
    blocks: frozenset[int]  # ids in the sender's pool
    num_bytes: int


class TransferChecker:
    """Checks of every transfer of a log with several instances. Pass each record in order."""

    def __init__(self) -> None:
        self._tables: dict[int, list[int]] = {}  # seq_id -> its blocks
        self._held: dict[str, _Held] = {}  # by transfer
        self._received: dict[str, _Received] = {}  # by transfer, while it is held
        self._receives: dict[int, list[Receive]] = {}  # seq_id -> operations before its `arrive`
        self._awaited: dict[str, int] = {}  # transfer -> receiving instance
        self._unreported: set[str] = set()  # transfers whose receiver was lost while it awaited them
        self._freed_early: dict[str, tuple[_Held, float]] = {}  # transfers freed without a reply, and when
        self._last_at: dict[int, float] = {}  # instance -> `timing.at` of its last record

    def wrong_in(self, record: StepRecord) -> Iterator[Wrong]:
        """Yield each contradiction between this record and earlier ones of other instances."""
        self._last_at[record.instance] = record.timing.at
        for position, op in enumerate(record.ops):
            for message in self._wrong(op, record):
                yield position, f"{op.__struct_config__.tag}: {message}"

    def unreceived(self) -> Iterator[str]:
        """Yield a sentence for each unreceived transfer that is still held more than one lease after its deadline."""
        for transfer, held in self._held.items():
            if transfer not in self._received and self._last_at[held.instance] > held.until + held.lease:
                yield f"the lease of transfer {transfer} ended at {held.until:.6f} s, but its blocks are still held"

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
                self._receives.setdefault(op.seq_id, []).append(op)
            case Arrive():
                yield from self._arrives(op, record)
            case Send():
                yield from self._sent(op, record)
            case Expire():
                held = self._held.pop(op.transfer, None)
                if held is None or held.instance != record.instance:
                    yield f"this instance does not hold transfer {op.transfer}"
                elif record.timing.at < held.earliest:
                    yield f"the lease of transfer {op.transfer} lasts until {held.earliest:.6f} s"
                self._free_early(op.transfer, held, record)
            case Lost():
                self._unreported.update(t for t, receiver in self._awaited.items() if receiver == record.instance)
                for transfer in [t for t, held in self._held.items() if held.instance == record.instance]:
                    self._free_early(transfer, self._held.pop(transfer), record)
            case _:
                pass

    def _free_early(self, transfer: str, held: _Held | None, record: StepRecord) -> None:
        self._received.pop(transfer, None)
        if held is not None:
            self._freed_early[transfer] = (held, record.timing.at)

    def _arrives(self, op: Arrive, record: StepRecord) -> Iterator[str]:
        self._awaited.pop(op.transfer, None)
        receives = self._receives.pop(op.seq_id, [])
        held = self._held.get(op.transfer)
        num_bytes = sum(receive.num_bytes for receive in receives)
        if num_bytes != op.num_bytes:
            yield f"num_bytes is {op.num_bytes}, but the received blocks have {num_bytes} bytes"
        if not op.began <= op.ended <= record.timing.at:
            yield f"it began at {op.began} s and ended at {op.ended} s, but timing.at is {record.timing.at} s"
        if held is None and op.transfer in self._freed_early:  # the blocks may have been read before they were freed
            held, at = self._freed_early[op.transfer]
            if op.began > at:  # not `ended`, which the receiver may read later than the sender frees the blocks
                held = None
        if held is None:
            yield f"no instance holds transfer {op.transfer}"
            return
        if held.instance == record.instance:
            yield f"transfer {op.transfer} is held by the instance that receives it"
        blocks = frozenset(receive.from_block_id for receive in receives)
        if blocks - held.blocks:
            yield f"block {min(blocks - held.blocks)} was received, but transfer {op.transfer} does not hold it"
        self._received[op.transfer] = _Received(blocks, op.num_bytes)

    def _sent(self, op: Send, record: StepRecord) -> Iterator[str]:
        held, received = self._held.pop(op.transfer, None), self._received.pop(op.transfer, None)
        if held is None or held.instance != record.instance:
            yield f"this instance does not hold transfer {op.transfer}"
            return
        sent = op.num_bytes, frozenset(op.block_ids)
        if op.num_bytes and received is None and op.transfer not in self._unreported:
            yield f"num_bytes is {op.num_bytes}, but no record receives them"
        elif received is not None and sent != (received.num_bytes, received.blocks):
            count, num_blocks = len(received.blocks), len(op.block_ids)
            yield f"{op.num_bytes} bytes of {num_blocks} blocks were sent, {received.num_bytes} of {count} received"
