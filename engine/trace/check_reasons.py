"""Checks that the reason of an `allocate` or `free` matches an adjacent operation."""

from __future__ import annotations

from collections.abc import Iterator

from engine.trace.operations import (
    Admit,
    Allocate,
    Await,
    Copy,
    Discard,
    Draft,
    Expire,
    Finish,
    Free,
    FreeReason,
    Load,
    Op,
    Preempt,
    Send,
    SwapIn,
    TakeBack,
    TransferFailed,
)
from engine.trace.records import StepRecord


def wrong_in_reasons(record: StepRecord) -> Iterator[tuple[int, str]]:
    """Yield each reason that the record contradicts: operation index and sentence. A missing reason is never wrong."""
    yield from _before(record.ops)
    yield from _behind(record.ops)


def _before(ops: list[Op]) -> Iterator[tuple[int, str]]:
    """Check reasons that need an earlier operation: the admission before the first blocks, the cause of a free."""
    resumed: dict[int, bool] = {}  # by sequence: `resumed` of its admission in this record
    free_reasons: dict[int, FreeReason] = {}  # by sequence: why the blocks that it held for another instance are freed
    for place, op in enumerate(ops):
        if isinstance(op, Admit):
            resumed[op.seq_id] = op.resumed
        elif isinstance(op, Send | Expire):
            free_reasons[op.seq_id] = "sent" if isinstance(op, Send) else "expired"
        elif isinstance(op, Free) and op.reason in ("sent", "expired") and free_reasons.get(op.seq_id) != op.reason:
            yield place, f"free: the reason is {op.reason}, and no such operation of sequence {op.seq_id} comes before"
        elif isinstance(op, Allocate) and op.reason in ("admission", "resume"):
            found = resumed.get(op.seq_id)
            if found is None or found != (op.reason == "resume"):
                yield place, f"allocate: the reason is {op.reason}, and no such admit comes before"


def _behind(ops: list[Op]) -> Iterator[tuple[int, str]]:
    """Check operations that need a later one: an allocated block must be filled, a reason to free must follow."""
    filled: set[int] = set()  # blocks that a later swap_in fills
    loaded: set[int] = set()  # blocks that a later load fills
    drafting: set[int] = set()  # sequences with a later draft
    awaiting: set[int] = set()  # sequences with a later await
    ends: dict[int, FreeReason] = {}  # by sequence: the reason that its next operation of that kind gives
    following: Op | None = None
    for place, op in reversed(list(enumerate(ops))):
        if ending := _ending(op):
            ends[ending[0]] = ending[1]
        elif isinstance(op, SwapIn):
            filled.add(op.block_id)
        elif isinstance(op, Load):
            loaded.add(op.block_id)
        elif isinstance(op, Draft):
            drafting.add(op.seq_id)
        elif isinstance(op, Await):
            awaiting.add(op.seq_id)
        elif isinstance(op, Free) and op.reason not in (None, "sent", "expired") and ends.get(op.seq_id) != op.reason:
            kind = "preempt by swap" if op.reason == "swap" else op.reason
            yield place, f"free: the reason is {op.reason}, and no {kind} of sequence {op.seq_id} follows"
        elif isinstance(op, Allocate):
            copied = isinstance(following, Copy) and following.dst == op.block_id
            fills = [("copy", copied), ("swap_in", op.block_id in filled), ("load", op.block_id in loaded)]
            fills.append(("receive", op.seq_id in awaiting))
            if op.reason == "draft" and op.seq_id not in drafting:
                yield place, f"allocate: the reason is draft, and no draft of sequence {op.seq_id} follows"
            for reason, follows in fills:
                if op.reason is not None and (op.reason == reason) != follows:
                    yield place, f"allocate: the reason is {op.reason}, and {'a' if follows else 'no'} {reason} follows"
            filled.discard(op.block_id)
            loaded.discard(op.block_id)
        following = op


def _ending(op: Op) -> tuple[int, FreeReason] | None:
    match op:
        case Finish():
            return op.seq_id, "finish"
        case Discard():
            return op.seq_id, "discard"
        case Preempt():
            return op.seq_id, "swap" if op.mode == "swap" else "preempt"
        case TakeBack():
            return op.seq_id, "take_back"
        case TransferFailed():
            return op.seq_id, "transfer_failed"
    return None
