"""Sequences whose keys and values move between instances, at the receiver and at the sender.

    waiting ── await ──► receiving ── arrive ──► waiting ──► running      on the instance that decodes
                             └─ transfer_failed ─► waiting                (it recomputes the tokens)
    running ── finish, hold ──► holding ── send | expire ──► removed      on the instance that computed the prompt

A receiving sequence already has its blocks, and holds them after the arrival while it waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from engine.scheduling.cache_protocol import Cache
from engine.scheduling.connector_protocol import External
from engine.scheduling.sequence import Sequence
from engine.scheduling.waiting_queue import WaitingQueue
from engine.trace.operations import Arrive, Await, Expire, Hold, Op, Send, TransferFailed, TransferFault


class TransferFacts(NamedTuple):
    """Facts of a finished transfer."""

    num_bytes: int
    link: str
    began: float  # seconds since the trace began
    ended: float


class Awaited(NamedTuple):
    """Transfer that a sequence waits for or has received."""

    sequence: Sequence
    transfer: str
    num_cached_tokens: int  # number of prefix cache hits
    num_tokens: int  # number of received tokens, after the hits
    loading: Any


class Transfers:
    """Part of the scheduler that moves sequences out of its waiting queue and back."""

    def __init__(self, cache: Cache, waiting: WaitingQueue, emit: Callable[[Op], None]) -> None:
        self._cache, self._waiting, self._emit = cache, waiting, emit
        self.receiving: dict[int, Awaited] = {}  # by seq_id, oldest first
        self.arrived: dict[int, Awaited] = {}  # waiting sequences that hold received blocks
        self.holding: dict[int, tuple[Sequence, str]] = {}
        self.num_changes = 0  # number of events that may end a wait

    def begin(self, sequence: Sequence, external: External, transfer: str) -> None:
        """Allocate the blocks of a waiting sequence, which must fit, and start to wait for the transfer into them."""
        seq_id, hits = sequence.seq_id, external.match.num_tokens
        allocated = self._cache.allocate(seq_id, external.end, "receive", external.match.hits, external.loading)
        assert allocated, "the demand was available"
        self._waiting.remove(sequence)
        sequence.status, sequence.num_computed_tokens, sequence.num_cached_tokens = "receiving", hits, hits
        self.receiving[seq_id] = Awaited(sequence, transfer, hits, external.num_tokens, external.loading)
        self._emit(Await(seq_id=seq_id, transfer=transfer, num_cached_tokens=hits, num_tokens=external.num_tokens))

    def arrive(self, seq_id: int, facts: TransferFacts) -> None:
        """Move a sequence whose transfer is complete to the waiting queue."""
        self.num_changes += 1
        awaited = self.arrived[seq_id] = self.receiving.pop(seq_id)
        sequence = awaited.sequence
        self._cache.receive(seq_id, awaited.loading)
        sequence.status, sequence.num_computed_tokens = "waiting", awaited.num_cached_tokens + awaited.num_tokens
        self._emit(
            Arrive(
                seq_id=seq_id,
                transfer=awaited.transfer,
                queue_position=self._waiting.push(sequence),
                num_tokens=awaited.num_tokens,
                num_bytes=facts.num_bytes,
                link=facts.link,
                began=facts.began,
                ended=facts.ended,
            )
        )

    def fail(self, seq_id: int, reason: TransferFault, detail: str = "") -> Sequence:
        """Fail a transfer, before or after its arrival. The sequence waits again, without blocks."""
        self.num_changes += 1
        awaited = self.receiving.pop(seq_id, None)
        if awaited is None:
            awaited = self.arrived.pop(seq_id)
            self._waiting.remove(awaited.sequence)
        sequence = awaited.sequence
        self._cache.free(seq_id, "transfer_failed")
        sequence.status, sequence.num_computed_tokens, sequence.num_cached_tokens = "waiting", 0, 0
        self._emit(
            TransferFailed(
                seq_id=seq_id,
                transfer=awaited.transfer,
                queue_position=self._waiting.push(sequence),
                reason=reason,
                detail=detail,
            )
        )
        return sequence

    def awaited(self, seq_id: int) -> bool:
        """Return whether the sequence waits and has blocks for a transfer, which may have arrived."""
        return seq_id in self.receiving or seq_id in self.arrived

    def hold(self, sequence: Sequence, transfer: str, lease: float) -> None:
        """Hold the blocks of a finished sequence."""
        self.holding[sequence.seq_id] = (sequence, transfer)
        self._emit(
            Hold(seq_id=sequence.seq_id, transfer=transfer, num_tokens=sequence.num_computed_tokens, lease=lease)
        )

    def sent(self, seq_id: int, block_ids: list[int], num_bytes: int) -> None:
        """Release a held sequence that the other instance has read."""
        self.num_changes += 1
        _, transfer = self.holding.pop(seq_id)
        self._emit(Send(seq_id=seq_id, transfer=transfer, block_ids=block_ids, num_bytes=num_bytes))
        self._cache.free(seq_id, "sent")
        self._cache.forget(seq_id)

    def expire(self, seq_id: int) -> None:
        """Release a held sequence whose lease has expired."""
        self.num_changes += 1
        _, transfer = self.holding.pop(seq_id)
        self._emit(Expire(seq_id=seq_id, transfer=transfer))
        self._cache.free(seq_id, "expired")
        self._cache.forget(seq_id)
