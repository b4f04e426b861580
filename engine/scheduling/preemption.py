"""Preemption of a running sequence: choice of the victim, mode, and cost.

recompute   frees the blocks; after readmission, tokens that no longer hit the prefix cache are recomputed
swap        copies computed blocks to the CPU store, and back at readmission; recompute if the store is full
"""

from __future__ import annotations

from collections.abc import Callable

from engine.scheduling.cache_protocol import Cache
from engine.scheduling.lookup import look_up
from engine.scheduling.sequence import Sequence
from engine.scheduling.waiting_queue import Policy, WaitingQueue
from engine.trace.operations import Op, Preempt, PreemptionMode, PreemptReason


class Preemption:
    """Moves preempted sequences from `running`, which is the scheduler's list, to `waiting`."""

    def __init__(
        self,
        cache: Cache,
        running: list[Sequence],
        waiting: WaitingQueue,
        policy: Policy,
        mode: PreemptionMode,
        emit: Callable[[Op], None],
    ) -> None:
        self._cache = cache
        self._running = running
        self._waiting = waiting
        self._reason: PreemptReason = "worst_priority" if policy == "priority" else "last_admitted"
        self._mode = mode
        self._emit = emit

    def victim(self) -> Sequence:
        """Return the next victim: the sequence of worst rank under the priority policy, else the last admitted one."""
        if self._reason == "worst_priority":
            return max(self._running, key=lambda s: s.rank)
        return self._running[-1]

    def preempt(self, victim: Sequence, beneficiary: Sequence, reason: PreemptReason | None = None) -> None:
        """Preempt the victim to get blocks for `beneficiary`. `reason` None: the policy chose the victim."""
        self._running.remove(victim)
        seq_id, num_computed = victim.seq_id, victim.num_computed_tokens
        num_blocks = self._cache.num_held(seq_id)
        wants_swap = self._mode == "swap" and num_computed > 0
        num_bytes = self._cache.swap_out(seq_id) if wants_swap else None
        num_kept = num_lost = 0
        if num_bytes is None:
            self._cache.free(seq_id, "preempt")
            num_kept = min(look_up(self._cache, victim).num_tokens, num_computed)
            num_lost = num_computed - num_kept
            victim.num_computed_tokens = 0
        victim.status = "preempted"
        victim.num_preemptions += 1
        self._emit(
            Preempt(
                seq_id=seq_id,
                queue_position=self._waiting.push(victim),
                mode="recompute" if num_bytes is None else "swap",
                for_seq_id=beneficiary.seq_id,
                num_computed_tokens=num_computed,
                reason=reason or self._reason,
                num_blocks=num_blocks,
                num_kept_tokens=num_kept,
                num_recompute_tokens=num_lost,
                num_bytes=num_bytes or 0,
                swap_refused=wants_swap and num_bytes is None,
            )
        )
