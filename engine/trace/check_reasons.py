"""Checks that the reason of an `allocate` or `free` matches another operation of the record."""

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
    yield from _check_earlier(record.ops)
    yield from _check_later(record.ops)


def _check_earlier(ops: list[Op]) -> Iterator[tuple[int, str]]:
    """Check reasons that require an earlier operation: an admit before allocate, a send or expire before free."""
    resumed: dict[int, bool] = {}  # seq_id -> `resumed` of its admission in this record
    free_reasons: dict[int, FreeReason] = {}  # seq_id -> reason to free the blocks that it held for another instance
    for position, op in enumerate(ops):
        if isinstance(op, Admit):
            resumed[op.seq_id] = op.resumed
        elif isinstance(op, Send | Expire):
            free_reasons[op.seq_id] = "sent" if isinstance(op, Send) else "expired"
        elif isinstance(op, Free) and op.reason in ("sent", "expired") and free_reasons.get(op.seq_id) != op.reason:
            kind = "send" if op.reason == "sent" else "expire"
            yield position, f"free: the reason is {op.reason}, but no {kind} of sequence {op.seq_id} precedes"
        elif isinstance(op, Allocate) and op.reason in ("admission", "resume"):
            found = resumed.get(op.seq_id)
            if found is None or found != (op.reason == "resume"):
                yield position, f"allocate: the reason is {op.reason}, but no such admit precedes"


def _check_later(ops: list[Op]) -> Iterator[tuple[int, str]]:
    """Check the reasons that require a later operation: one that fills an allocated block, or the cause of a free."""
    filled: set[int] = set()  # blocks that a later swap_in fills
    loaded: set[int] = set()  # blocks that a later load fills
    drafting: set[int] = set()  # sequences with a later draft
    awaiting: set[int] = set()  # sequences with a later await
    causes: dict[int, FreeReason] = {}  # seq_id -> reason of its next operation that frees blocks
    following: Op | None = None
    for position, op in reversed(list(enumerate(ops))):
        if cause := _free_cause(op):
            causes[cause[0]] = cause[1]
        elif isinstance(op, SwapIn):
            filled.add(op.block_id)
        elif isinstance(op, Load):
            loaded.add(op.block_id)
        elif isinstance(op, Draft):
            drafting.add(op.seq_id)
        elif isinstance(op, Await):
            awaiting.add(op.seq_id)
        elif isinstance(op, Free) and op.reason not in (None, "sent", "expired") and causes.get(op.seq_id) != op.reason:
            kind = "preempt by swap" if op.reason == "swap" else op.reason
            yield position, f"free: the reason is {op.reason}, but no {kind} of sequence {op.seq_id} follows"
        elif isinstance(op, Allocate):
            copied = isinstance(following, Copy) and following.dst == op.block_id
            fills = [("copy", copied), ("swap_in", op.block_id in filled), ("load", op.block_id in loaded)]
            fills.append(("receive", op.seq_id in awaiting))
            if op.reason == "draft" and op.seq_id not in drafting:
                yield position, f"allocate: the reason is draft, but no draft of sequence {op.seq_id} follows"
            for reason, follows in fills:
                if op.reason is not None and (op.reason == reason) != follows:
                    yield (
                        position,
                        f"allocate: the reason is {op.reason}, but {'a' if follows else 'no'} {reason} follows",
                    )
            filled.discard(op.block_id)
            loaded.discard(op.block_id)
        following = op


def _free_cause(op: Op) -> tuple[int, FreeReason] | None:
    """Return the sequence whose blocks the operation frees, and the reason; None for other operations."""
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
