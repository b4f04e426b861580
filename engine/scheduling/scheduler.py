"""Continuous batching: chooses the sequences of the next step, their tokens and their blocks.

The engine drives a step as follows:

    batch = schedule()               lookup, admit, share, allocate, copy, cache, preempt, defer
    batch = add_drafts()             allocate, draft
    ... forward pass ...
    commit(batch)                    write, release
    append_token(...), finish(...)   sample, free, finish
    settle_drafts(...)               verify, take_back, release
    discard(...)                     strategy `none` only: free, discard
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

from engine.scheduling.cache_protocol import Cache, Demand
from engine.scheduling.capacity import check_feasible, slots_required
from engine.scheduling.connector_protocol import Connector, External, look_up_external
from engine.scheduling.lookup import look_up, verdict
from engine.scheduling.preemption import Preemption
from engine.scheduling.progress import Progress
from engine.scheduling.sequence import Sequence
from engine.scheduling.speculation import Speculation
from engine.scheduling.step import ScheduledSequence, Step, phase_of
from engine.scheduling.transfers import Transfers
from engine.scheduling.waiting_queue import Policy, WaitingQueue
from engine.trace.operations import (
    Admit,
    AllocateReason,
    Defer,
    DeferReason,
    Discard,
    Finish,
    FinishReason,
    ForkReason,
    Op,
    PreemptionMode,
    Sample,
    Setting,
    Submit,
)

__all__ = ["ScheduledSequence", "Scheduler"]


class Scheduler:
    """Scheduler of steps within a token budget, a limit of running sequences and the free blocks.

    Args:
        cache: the block tables. Only the scheduler allocates and frees in it.
        max_num_seqs: limit of running sequences, pending forks included.
        max_num_batched_tokens: token budget of a step.
        enable_chunked_prefill: whether a prompt may be computed in several steps.
        reserve_full_isl: admit a sequence only if all of its tokens fit, not just the first chunk.
        policy: the order of admission; preemption uses the opposite order.
        recompute_all: strategy `none`. Every step computes all tokens of a sequence, and the budget splits none: the
            first sequence is always scheduled, further ones within the budget. No blocks are held between steps, so
            preemption would free nothing; a sequence that does not fit skips the step.
        reserve_all: strategy `first_fit`. Admission allocates all blocks that a sequence can ever need.
        preemption_mode: whether a preempted sequence is recomputed or swapped.
        emit: receives every operation, in order.
        connector: finds keys and values outside the pool.
    """

    def __init__(
        self,
        cache: Cache,
        *,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        enable_chunked_prefill: bool = True,
        reserve_full_isl: bool = False,
        policy: Policy = "fcfs",
        recompute_all: bool = False,
        reserve_all: bool = False,
        preemption_mode: PreemptionMode = "recompute",
        emit: Callable[[Op], None],
        connector: Connector | None = None,
    ) -> None:
        self._cache = cache
        self.connector = connector  # may be replaced between steps
        self._max_num_seqs = max_num_seqs
        self._max_num_batched_tokens = max_num_batched_tokens
        self._splits = enable_chunked_prefill and not recompute_all
        self._reserve_full = reserve_full_isl
        self._recompute_all = recompute_all
        self._reserve_all = reserve_all
        self._emit = emit
        self._waiting = WaitingQueue(policy)
        self._running: list[Sequence] = []  # in order of admission
        self.transfers = Transfers(cache, self._waiting, emit)
        self._num_finished = 0
        self._stuck_at: tuple[int, ...] | None = None  # `_changes` when no sequence could continue
        self._progress = Progress(cache, max_num_batched_tokens)
        self.speculation: Speculation | None = None  # set before the first step
        self._step = Step(0)  # the last scheduled step
        self._preemption = Preemption(cache, self._running, self._waiting, policy, preemption_mode, emit)

    @property
    def waiting(self) -> list[Sequence]:
        """Copy of the waiting sequences, including preempted ones; the first is admitted next."""
        return list(self._waiting)

    @property
    def running(self) -> list[Sequence]:
        """Copy of the running sequences, in order of admission."""
        return list(self._running)

    @property
    def has_unfinished(self) -> bool:
        """Whether any sequence is waiting, receiving or running."""
        return bool(self._running) or len(self._waiting) > 0 or bool(self.transfers.receiving)

    @property
    def can_step(self) -> bool:
        """Whether a step could make progress. False while every unfinished sequence waits for another instance, or for
        blocks that only another instance can free.
        """
        return bool(self._running or len(self._waiting)) and self._stuck_at != self._changes

    @property
    def _changes(self) -> tuple[int, ...]:
        """Counters of all events that may allow an admission."""
        return (self.transfers.num_changes, len(self._waiting), self._num_finished)

    def add(self, sequence: Sequence, prompt_token_bytes: list[bytes], sampling: dict[str, Setting]) -> None:
        """Append a new sequence to the waiting queue. `prompt_token_bytes` and `sampling` are only recorded.

        Raises:
            ValueError: the sequence has no token, or could never finish: it needs more blocks than the pool has, more
                sequences than max_num_seqs, or (without chunked prefill) more tokens in a step than the budget.
        """
        step_tokens = None if self._splits or self._recompute_all else self._max_num_batched_tokens
        chunk_tokens = self._max_num_batched_tokens if self._splits else None
        check_feasible(sequence, self._cache, self._max_num_seqs, chunk_tokens, step_tokens)
        position = self._waiting.push(sequence)
        self._emit(
            Submit(
                seq_id=sequence.seq_id,
                queue_position=position,
                request_id=sequence.request_id,
                prompt_token_ids=list(sequence.token_ids),
                prompt_token_bytes=prompt_token_bytes,
                max_tokens=sequence.max_tokens,
                priority=sequence.priority,
                cache_salt=sequence.cache_salt,
                sampling=sampling,
                client=sequence.client,
                waited=sequence.waited,
                transfer=sequence.transfer,
                kv_role=sequence.kv_role,
            )
        )

    def schedule(self) -> list[ScheduledSequence]:
        """Schedule a step and return its batch. Call `commit` before the next `schedule`.

        The batch is empty in two cases: the last beam of a request was swapped in, so that only the choice among the
        beams' tokens remains, or no sequence can continue until a transfer ends.

        Raises:
            NoProgressError: no sequence made progress in many steps.
        """
        transfers = self.transfers
        is_moving = bool(transfers.receiving or transfers.holding)  # every transfer ends, which is progress
        if not is_moving:
            self._progress.step((self._num_finished, transfers.num_changes), chain(self._running, self._waiting))
        self._stuck_at = None
        step = Step(self._max_num_batched_tokens)
        receiving = len(transfers.receiving)
        # 1) running sequences, which precede waiting ones because they hold blocks
        self._schedule_running(step)
        # 2) full blocks enter the prefix cache, after 1, since a preempted sequence must not leave a promised block
        cache_blocks = self._cache.cache_blocks
        for sequence, start, num_tokens in step.batch.values():
            cache_blocks(sequence.seq_id, sequence.token_ids, start + num_tokens, sequence.cache_salt)
        # 3) waiting sequences. Blocks freed by a preemption of this step are not used for admissions. If a sequence
        #    preempted itself while all others wait for beams, it would run out of blocks at the same token again
        preempted = step.self_preempted
        is_back = preempted is not None and self._waiting.head is preempted and not step.batch
        must_wait = is_moving and is_back
        if is_back and not is_moving and self._running:
            self._break_deadlock(step)
        elif must_wait or (len(self._waiting) and step.preempted and step.batch):
            demand = self._demand_of(self._waiting.head)
            self._defer(self._waiting.head, "step_preempted", demand.needed, demand.available)
        elif len(self._waiting):
            self._admit_waiting(step)
        # 4) deadlock: beams wait for beams of their request that are not admitted, or sequences that do not run hold
        #    the blocks. Every transfer ends; received blocks of waiting sequences are freed
        if not step.batch and not step.admitted and len(transfers.receiving) == receiving:
            is_deadlock = bool(self._running) and len(self._waiting) > 0 and not must_wait
            if is_deadlock:
                self._break_deadlock(step)
            if not step.batch and (is_deadlock or not is_moving):
                self._free_arrived(step)
            if not step.batch and is_moving and (is_deadlock or must_wait or not self._running):
                self._stuck_at = self._changes
        self._step = step
        return list(step.batch.values())

    def add_drafts(self) -> list[ScheduledSequence]:
        """Add drafts to the scheduled step within the remaining budget and free blocks; return the batch."""
        if self.speculation is not None:
            self.speculation.extend(self._step)
        return list(self._step.batch.values())

    def commit(self, scheduled: Iterable[ScheduledSequence]) -> None:
        """Mark the step's tokens as computed, and release blocks that no later query sees.

        Blocks are released after all sequences have written, because a promised block may be shared, and the promising
        sequence fills it. Strategy `none` releases nothing, because `discard` frees all blocks.
        """
        batch, cache = list(scheduled), self._cache
        for sequence, start, num_tokens in batch:
            cache.write(sequence.seq_id, start, num_tokens)
            sequence.num_computed_tokens = end = min(start + num_tokens, len(sequence.token_ids))  # drafts do not count
            if end > sequence.max_computed_tokens:
                sequence.max_computed_tokens, self._progress.num_idle = end, 0
        if not self._recompute_all:
            # the receiver of a prompt's blocks recomputes the last token, which sees one token further back; blocks of
            # sequences with drafts are released after the verification
            cache.release(
                s.seq_id
                for s, _, _ in batch
                if not s.draft_token_ids
                and not (s.kv_role == "kv_producer" and s.num_computed_tokens == s.num_prompt_tokens)
            )

    def append_token(self, sequence: Sequence, token_id: int, sampled_token_id: int | None = None) -> None:
        """Append a token sampled from the sequence's last position, which must be computed.

        `sampled_token_id`, the sampler's token if the caller replaced it, is only recorded.

        Raises:
            ValueError: the last position is not computed.
        """
        if sequence.num_computed_tokens != len(sequence.token_ids):
            raise ValueError(
                f"sequence {sequence.seq_id} cannot sample: {sequence.num_computed_tokens} of {sequence.num_tokens} "
                f"tokens are computed"
            )
        sequence.token_ids.append(token_id)
        at, drafts = sequence.num_accepted_drafts, sequence.draft_token_ids
        if at < len(drafts) and drafts[at] == token_id:
            sequence.num_accepted_drafts += 1
            sequence.num_computed_tokens += 1  # its K and V are already written
        self._emit(Sample(seq_id=sequence.seq_id, token_id=token_id, sampled_token_id=sampled_token_id))

    def settle_drafts(self, sequence: Sequence) -> None:
        """Discard the rejected drafts, after the last sampling of the step."""
        assert self.speculation is not None
        self.speculation.settle(sequence)

    def fork(
        self,
        parent: Sequence,
        seq_id: int,
        request_id: str,
        reason: ForkReason = "sample",
        seed: int | None = None,
    ) -> Sequence:
        """Return a new running sequence that shares the parent's tokens and blocks.

        Call it between `commit` and `append_token`. `reason` and `seed` are only recorded.
        """
        child = Sequence(
            seq_id=seq_id,
            request_id=request_id,
            token_ids=list(parent.token_ids),
            num_prompt_tokens=parent.num_prompt_tokens,
            max_tokens=parent.max_tokens,
            priority=parent.priority,
            arrival=parent.arrival,
            cache_salt=parent.cache_salt,
            status=parent.status,
            num_computed_tokens=parent.num_computed_tokens,
            num_cached_tokens=parent.num_cached_tokens,
            num_preemptions=parent.num_preemptions,
            max_computed_tokens=parent.max_computed_tokens,
        )
        self._cache.fork(parent.seq_id, seq_id, request_id, reason, seed)
        self._cache.remember(seq_id, child.token_ids, child.cache_salt)
        parent.num_forks = max(parent.num_forks - 1, 0)
        self._running.append(child)
        return child

    def finish(self, sequence: Sequence, reason: FinishReason, detail: str = "") -> None:
        """Finish a sequence and free its blocks. Not allowed between `schedule` and `commit`."""
        seq_id, lease = sequence.seq_id, None
        if self.speculation is not None and sequence.draft_token_ids:
            self.speculation.discard_drafts(sequence)  # the step failed
        if self.connector is not None:
            lease = self.connector.request_finished(sequence, self._cache.block_tables(seq_id), reason)
        if sequence.status == "running":
            self._running.remove(sequence)
        elif sequence.status == "receiving":
            del self.transfers.receiving[seq_id]
        else:
            self._waiting.remove(sequence)
            self.transfers.arrived.pop(seq_id, None)
        if lease is None:
            self._cache.free(seq_id, "finish")
            self._cache.forget(seq_id)
        sequence.status = "finished"
        self._num_finished += 1
        self._emit(Finish(seq_id=seq_id, reason=reason, detail=detail))
        if lease is not None:
            assert sequence.transfer is not None
            self.transfers.hold(sequence, sequence.transfer, lease)

    def abort(self, request_id: str, detail: str = "") -> list[Sequence]:
        """Finish and return every sequence of a request; none if the request is unknown or finished."""
        receiving = [awaited.sequence for awaited in self.transfers.receiving.values()]
        found = [s for s in (*self._running, *self._waiting, *receiving) if s.request_id == request_id]
        for sequence in found:
            self.finish(sequence, "abort", detail)
        return found

    def discard(self, sequences: Iterable[Sequence]) -> None:
        """Discard the K and V of running sequences at the end of a step (strategy `none`)."""
        for sequence in sequences:
            self._cache.free(sequence.seq_id, "discard")
            sequence.num_computed_tokens = 0
            self._emit(Discard(seq_id=sequence.seq_id))

    # 1) running sequences

    def _schedule_running(self, step: Step) -> None:
        has_room = self._cache.has_room
        for sequence in list(self._running):
            if sequence.status != "running":
                continue  # preempted for an earlier sequence of this loop
            num_computed = sequence.num_computed_tokens
            num_tokens = self._num_schedulable(len(sequence.token_ids) - num_computed, step)
            if not num_tokens:
                continue
            end = num_computed + num_tokens
            if has_room(sequence.seq_id, end) or self._make_room(sequence, num_tokens, step):
                step.add(sequence, num_tokens)

    def _num_schedulable(self, num_missing: int, step: Step) -> int:
        """Return the number of a sequence's missing tokens that fit into the step's budget."""
        if num_missing <= step.budget:
            return num_missing
        if self._splits:
            return max(step.budget, 0)
        return num_missing if self._recompute_all and not step.batch else 0

    def _make_room(self, sequence: Sequence, num_tokens: int, step: Step) -> bool:
        """Allocate the next `num_tokens` tokens of a running sequence, preempting others if blocks are missing.

        Returns False if the sequence itself is preempted or skips the step.
        """
        start, reason = sequence.num_computed_tokens, self._reason_to_grow(sequence, num_tokens)
        while not self._cache.allocate(sequence.seq_id, start + num_tokens, reason):
            if self._recompute_all:
                return False
            victim = self._preemption.victim()
            if victim is sequence:
                if self._free_last_arrived(sequence):
                    continue  # received blocks of a waiting sequence were freed
                step.self_preempted = sequence
            step.remove(victim)
            self._preemption.preempt(victim, sequence)
            step.preempted = True
            if victim is sequence:
                return False
        return True

    def _reason_to_grow(self, sequence: Sequence, num_tokens: int) -> AllocateReason:
        if self._recompute_all:
            return "recompute"
        return "append" if phase_of(sequence, sequence.num_computed_tokens, num_tokens) == "decode" else "chunk"

    # 3) waiting sequences

    def _admit_waiting(self, step: Step) -> None:
        while len(self._waiting) and self._admit(self._waiting.head, step):
            pass

    def _admit(self, sequence: Sequence, step: Step) -> bool:
        """Admit the head of the waiting queue, or defer it. The lookup is emitted only with an admission."""
        available = self._max_num_seqs - sum(1 + s.num_forks for s in self._running)
        if 1 + sequence.num_forks > available:
            return self._defer(sequence, "max_num_seqs", 1 + sequence.num_forks, available)
        if self._cache.num_swapped_tokens(sequence.seq_id):
            return self._admit_swapped(sequence, step)
        if sequence.seq_id in self.transfers.arrived:
            return self._admit_arrived(sequence, step)
        external = look_up_external(self.connector, self._cache, sequence, look_up(self._cache, sequence))
        match, loading = external.match, external.loading
        if external.is_later:
            return self._await(sequence, external)
        num_missing = sequence.num_tokens - external.end
        num_tokens = self._num_schedulable(num_missing, step)
        if num_tokens == 0:
            return self._defer(sequence, "token_budget", 1 if self._splits else num_missing, max(step.budget, 0))
        end = external.end + num_tokens
        covered = slots_required(sequence.num_prompt_tokens, sequence.max_tokens) if self._reserve_all else end
        demand = self._cache.demand(sequence.seq_id, covered, match.hits, loading, self._reserved(sequence))
        if demand.needed > demand.available:
            return self._defer_for_blocks(sequence, demand)
        self._emit(verdict(self._cache, sequence, match))
        if external.operation is not None:
            self._emit(external.operation)
        reason: AllocateReason = "resume" if sequence.status == "preempted" else "admission"
        self._run(sequence, step, num_cached_tokens=match.num_tokens, num_external_tokens=external.num_tokens)
        allocated = self._cache.allocate(sequence.seq_id, covered, reason, match.hits, loading)
        assert allocated, "the demand was available"
        if self.connector is not None:
            tables = self._cache.block_tables(sequence.seq_id)
            self.connector.update_state_after_alloc(sequence, tables, external.num_tokens)
        self._cache_blocks(sequence, end)
        step.add(sequence, num_tokens)
        return True

    def _reserved(self, sequence: Sequence) -> int:
        """Return the number of tokens that must fit before the sequence is admitted, besides its first chunk."""
        return sequence.num_tokens if self._reserve_full else 0

    def _admit_swapped(self, sequence: Sequence, step: Step) -> bool:
        """Admit a swapped-out sequence. All of its tokens may be computed already."""
        num_swapped = self._cache.num_swapped_tokens(sequence.seq_id)
        num_missing = sequence.num_tokens - num_swapped
        num_tokens = self._num_schedulable(num_missing, step)
        if num_missing and num_tokens == 0:
            return self._defer(sequence, "token_budget", 1 if self._splits else num_missing, max(step.budget, 0))
        end = num_swapped + num_tokens
        demand = self._cache.demand(sequence.seq_id, end, reserved=self._reserved(sequence))
        if demand.needed > demand.available:
            return self._defer_for_blocks(sequence, demand)
        self._run(sequence, step, num_swapped_tokens=num_swapped)
        swapped = self._cache.swap_in(sequence.seq_id, end)
        assert swapped, "the demand was available"
        self._cache_blocks(sequence, end)
        if num_tokens:
            step.add(sequence, num_tokens)
        return True

    def _await(self, sequence: Sequence, external: External) -> bool:
        """Move the sequence out of the waiting queue until blocks of another instance arrive.

        Its own blocks are allocated now. While they do not fit, the other instance holds the blocks to be sent.
        """
        demand = self._cache.demand(sequence.seq_id, external.end, external.match.hits, external.loading)
        if demand.needed > demand.available:
            return self._defer_for_blocks(sequence, demand)
        assert self.connector is not None and sequence.transfer is not None
        self._emit(verdict(self._cache, sequence, external.match))
        self.transfers.begin(sequence, external, sequence.transfer)
        tables = self._cache.block_tables(sequence.seq_id)
        self.connector.update_state_after_alloc(sequence, tables, external.num_tokens)
        return True

    def _admit_arrived(self, sequence: Sequence, step: Step) -> bool:
        """Admit a sequence whose transfer has arrived. It has blocks, and at least one token to compute."""
        awaited = self.transfers.arrived[sequence.seq_id]
        start = sequence.num_computed_tokens
        num_tokens = self._num_schedulable(sequence.num_tokens - start, step)
        if num_tokens == 0:
            missing = 1 if self._splits else sequence.num_tokens - start
            return self._defer(sequence, "token_budget", missing, max(step.budget, 0))
        end = start + num_tokens
        demand = self._cache.demand(sequence.seq_id, end, reserved=self._reserved(sequence))
        if demand.needed > demand.available:
            return self._defer_for_blocks(sequence, demand)
        del self.transfers.arrived[sequence.seq_id]
        self._run(sequence, step, num_cached_tokens=awaited.num_cached_tokens, num_external_tokens=awaited.num_tokens)
        allocated = self._cache.allocate(sequence.seq_id, end, "admission")
        assert allocated, "the demand was available"
        self._cache_blocks(sequence, end)
        step.add(sequence, num_tokens)
        return True

    def _free_arrived(self, step: Step) -> None:
        """Free received blocks of waiting sequences, the last one first, until the head of the queue is admitted."""
        head = next(iter(self._waiting), None)
        while head is not None and next(iter(self._waiting), None) is head and self._free_last_arrived(head):
            self._admit_waiting(step)

    def _free_last_arrived(self, beneficiary: Sequence) -> bool:
        """Free the received blocks of the last waiting sequence after `beneficiary`. Returns False if none has any."""
        for sequence in reversed(self._waiting.after(beneficiary)):
            if sequence.seq_id in self.transfers.arrived:
                self.transfers.fail(sequence.seq_id, "no_room")
                sequence.kv_role = None
                return True
        return False

    def _run(
        self,
        sequence: Sequence,
        step: Step,
        num_cached_tokens: int = 0,
        num_swapped_tokens: int = 0,
        num_external_tokens: int = 0,
    ) -> None:
        """Move a sequence from waiting to running."""
        self._emit(
            Admit(
                seq_id=sequence.seq_id,
                num_cached_tokens=num_cached_tokens,
                resumed=sequence.status == "preempted",
                num_swapped_tokens=num_swapped_tokens,
                num_external_tokens=num_external_tokens,
            )
        )
        self._waiting.remove(sequence)
        self._running.append(sequence)
        self._cache.remember(sequence.seq_id, sequence.token_ids, sequence.cache_salt)
        sequence.status = "running"
        sequence.num_cached_tokens = num_cached_tokens
        sequence.num_computed_tokens = num_cached_tokens + num_swapped_tokens + num_external_tokens
        step.admitted = True

    # 4) beams that wait for each other

    def _break_deadlock(self, step: Step) -> None:
        """Preempt all running sequences. They are readmitted by rank, so the first request can use the entire pool."""
        beneficiary = self._waiting.head
        for victim in reversed(self.running):
            self._preemption.preempt(victim, beneficiary, "deadlock")
        self._admit_waiting(step)

    def _defer(self, sequence: Sequence, reason: DeferReason, needed: int, available: int) -> bool:
        self._emit(Defer(seq_id=sequence.seq_id, reason=reason, needed=needed, available=available))
        return False

    def _defer_for_blocks(self, sequence: Sequence, demand: Demand) -> bool:
        needed, available, free = demand.needed, demand.available, demand.num_free
        if free is None or free < needed:
            return self._defer(sequence, "no_free_blocks", needed, available if free is None else free)
        # enough blocks are free, but they are not adjacent
        self._emit(
            Defer(seq_id=sequence.seq_id, reason="fragmented", needed=needed, available=available, num_free=free)
        )
        return False

    def _demand_of(self, sequence: Sequence) -> Demand:
        """Return the demand of a waiting sequence for the maximum number of tokens of one step."""
        num_swapped, hits, loading = self._cache.num_swapped_tokens(sequence.seq_id), (), None
        start = num_swapped
        if sequence.seq_id in self.transfers.arrived:
            start = sequence.num_computed_tokens
        elif not num_swapped:
            external = look_up_external(self.connector, self._cache, sequence, look_up(self._cache, sequence))
            start, hits, loading = external.end, external.match.hits, external.loading
        num_tokens = sequence.num_tokens - start
        if self._splits:
            num_tokens = min(num_tokens, self._max_num_batched_tokens)
        return self._cache.demand(sequence.seq_id, start + num_tokens, hits, loading)

    def _cache_blocks(self, sequence: Sequence, num_tokens: int) -> None:
        self._cache.cache_blocks(sequence.seq_id, sequence.token_ids, num_tokens, sequence.cache_salt)
