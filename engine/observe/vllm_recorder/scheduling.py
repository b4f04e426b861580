"""Converts the hooked calls of a schedule to operations: allocations, lookups, preemptions, deferrals.

For each request, vLLM's scheduler requests slots from the cache manager, which calls the pool. The pool's calls between
`allocating` and `end_allocation` belong to that request. The reason why the head of the queue waits follows from the
refused allocation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from engine.cache.prefix_memory import Explanation, PrefixMemory
from engine.observe.vllm_recorder.blocks import Blocks
from engine.observe.vllm_recorder.errors import WatchError
from engine.observe.vllm_recorder.request import RecordedRequest, phase_of
from engine.observe.vllm_recorder.terms import Settings
from engine.trace.operations import (
    RELEASED,
    Admit,
    AllocateReason,
    Defer,
    DeferReason,
    Lookup,
    LookupVerdict,
    Op,
    Preempt,
)


class _PoolCall(NamedTuple):
    """Call of the pool for the current request."""

    kind: Literal["allocated", "shared", "released", "cached"]
    numbers: list[int]  # block ids; logical indices if `kind` is "cached"


class Scheduling:
    """Schedule of the current step.

    `freeing`: request whose blocks are freed by the next call; `batch`: number of tokens by request.
    """

    def __init__(self, settings: Settings, blocks: Blocks, memory: PrefixMemory, emit: Callable[[Op], None]) -> None:
        self.freeing: RecordedRequest | None = None
        self.batch: list[tuple[RecordedRequest, int]] = []
        self._settings, self._blocks, self._memory, self._emit = settings, blocks, memory, emit
        self._waiting: list[RecordedRequest] = []
        self._running: set[RecordedRequest] = set()
        self._allocating: RecordedRequest | None = None
        self._pool_calls: list[_PoolCall] = []
        self._hits: dict[int, list[int]] = {}  # sequence -> hits of its last lookup
        self._hashes: list[tuple[RecordedRequest, int]] = []  # (request, logical), recorded later
        self._refused: tuple[RecordedRequest, int] | None = None  # last refused allocation: request, number of tokens
        self._has_preempted = False
        self._before = (0, 0)  # of the freed request: held blocks, computed tokens

    def queue(self, one: RecordedRequest) -> int:
        """Insert a new or preempted request into the waiting queue. Returns its position."""
        if self._settings.scheduling_policy == "priority":
            position = bisect_right([other.request for other in self._waiting], one.request)
        else:
            position = 0 if one.was_preempted else len(self._waiting)
        self._waiting.insert(position, one)
        return position

    def begin(self) -> None:
        self._refused, self._has_preempted = None, False

    def looked_up(self, one: RecordedRequest, block_ids: Sequence[int], num_tokens: int) -> None:
        """Record a lookup that hit `num_tokens` tokens in these blocks."""
        if num_tokens != len(block_ids) * self._settings.block_size:
            raise WatchError(f"request {one.name} hits {num_tokens} tokens, which is not a number of full blocks")
        self._record_hashes()
        self._hits[one.seq_id] = list(block_ids)

    def allocating(self, one: RecordedRequest) -> None:
        """Begin an allocation for the request's next tokens."""
        self._allocating, self._pool_calls = one, []

    def allocated(self, block_ids: Sequence[int]) -> None:
        self._add_call("allocated", block_ids)

    def shared(self, block_ids: Sequence[int]) -> None:
        self._add_call("shared", block_ids)

    def cached(self, one: RecordedRequest, logicals: Iterable[int]) -> None:
        """Record that logical blocks got hashes."""
        if one is not self._allocating:
            raise WatchError(f"blocks of request {one.name} are cached between two steps, which cannot be recorded")
        self._add_call("cached", logicals)

    def freed_blocks(self, block_ids: Sequence[int]) -> None:
        """Record freed blocks: all blocks of a freed request, or blocks of the current request outside its window."""
        one = self.freeing
        if one is None:
            if block_ids:
                self._add_call("released", block_ids)
            return
        if one not in self._running:
            return  # a waiting request has no blocks
        self._record_hashes(one)
        table = one.table
        self._before = sum(block_id != RELEASED for block_id in table.block_ids), table.num_computed
        self._memory.released(one.seq_id, table.num_computed)
        self._blocks.free(table, block_ids, "finish" if one.has_ended else "preempt")

    def end_allocation(self, one: RecordedRequest, num_tokens: int, fits: bool) -> None:
        """End an allocation. `fits`: whether it succeeded."""
        calls, self._allocating, self._pool_calls = self._pool_calls, None, []
        for event in calls:
            if event.kind == "released":
                self._blocks.release(one.table, event.numbers)
        if not fits:
            self._refused = (one, num_tokens)
            return
        reason: AllocateReason
        if one in self._running:
            phase = phase_of(one, one.table.num_computed, num_tokens)
            reason = "append" if phase == "decode" else "chunk"
        else:
            reason = "resume" if one.was_preempted else "admission"
            self._admit(one, [number for event in calls if event.kind == "shared" for number in event.numbers])
        for event in calls:
            if event.kind == "allocated":
                self._blocks.allocate(one.table, event.numbers, reason)
            elif event.kind == "cached":
                self._hashes += [(one, logical) for logical in event.numbers]
        if reason in ("admission", "resume"):
            self._record_hashes()

    def preempted(self, one: RecordedRequest) -> None:
        """Record a preemption, after the request's blocks were freed."""
        if self._refused is None:
            raise WatchError(f"request {one.name} is preempted without a refused allocation, which cannot be recorded")
        num_blocks, num_computed = self._before
        num_kept = 0
        if self._settings.enable_prefix_caching and not one.request.skip_reading_prefix_cache:
            found = self._blocks.find(one.request.block_hashes, len(one.token_ids))
            num_kept = min(len(found) * self._settings.block_size, num_computed)
        self._running.discard(one)
        one.was_preempted = self._has_preempted = True
        self._emit(
            Preempt(
                seq_id=one.seq_id,
                queue_position=self.queue(one),
                mode="recompute",
                for_seq_id=self._refused[0].seq_id,
                num_computed_tokens=num_computed,
                reason="worst_priority" if self._settings.scheduling_policy == "priority" else "last_admitted",
                num_blocks=num_blocks,
                num_kept_tokens=num_kept,
                num_recompute_tokens=num_computed - num_kept,
            )
        )

    def ended(self, one: RecordedRequest) -> None:
        self._hits.pop(one.seq_id, None)
        if one in self._running:
            self._running.discard(one)
        else:
            self._waiting.remove(one)

    def end(self, batch: list[tuple[RecordedRequest, int]]) -> None:
        self._record_hashes()
        self.batch = batch
        if self._waiting:
            self._defer(self._waiting[0], self._settings.max_num_batched_tokens - sum(count for _, count in batch))

    def _add_call(self, kind: Literal["allocated", "shared", "released", "cached"], numbers: Iterable[int]) -> None:
        if self._allocating is None:
            raise WatchError(f"blocks were {kind} outside an allocation")
        self._pool_calls.append(_PoolCall(kind, list(numbers)))

    def _record_hashes(self, only: RecordedRequest | None = None) -> None:
        pending, self._hashes = self._hashes, []
        size = self._settings.block_size
        for one, logical in pending:
            if only is not None and one is not only:
                self._hashes.append((one, logical))
                continue
            hashes = one.request.block_hashes
            parent = bytes(hashes[logical - 1]) if logical else None
            token_ids = one.token_ids[logical * size : (logical + 1) * size]
            self._blocks.cache(one.table, logical, bytes(hashes[logical]), parent, token_ids)

    def _admit(self, one: RecordedRequest, shared: list[int]) -> None:
        """Record the lookup, the admission and the shared blocks. Hits outside the window are not shared."""
        hits = self._hits.pop(one.seq_id, [])
        self._emit(self._verdict(one, hits))
        num_tokens = len(hits) * self._settings.block_size
        self._emit(Admit(seq_id=one.seq_id, num_cached_tokens=num_tokens, resumed=one.was_preempted))
        self._waiting.remove(one)
        self._running.add(one)
        self._memory.admitted(one.seq_id, one.token_ids, one.request.cache_salt)
        shared_ids = set(shared)
        block_ids = [block_id if block_id in shared_ids else RELEASED for block_id in hits]
        if [block_id for block_id in block_ids if block_id != RELEASED] != shared:
            raise WatchError(f"request {one.name} shares blocks {shared}, but its lookup found {hits}")
        if block_ids:
            self._blocks.share(one.table, block_ids)

    def _verdict(self, one: RecordedRequest, hits: list[int]) -> Lookup:
        size, num_tokens = self._settings.block_size, len(one.token_ids)
        why, verdict = Explanation(), self._lookup_verdict(one, hits)
        if verdict not in ("disabled", "skipped"):
            all_hit = len(hits) >= (num_tokens - 1) // size
            lost = None if all_hit else self._blocks.evicted.find(bytes(one.request.block_hashes[len(hits)]))
            salt = one.request.cache_salt
            why = self._memory.explain(one.token_ids, salt, len(hits) * size, size, all_hit, lost)
        found = Lookup(
            seq_id=one.seq_id,
            verdict=verdict,
            num_tokens=num_tokens,
            num_hit_tokens=len(hits) * size,
            block_ids=[block_id for block_id in hits if block_id != RELEASED],
        )
        return why.add_to(found)

    def _lookup_verdict(self, one: RecordedRequest, hits: list[int]) -> LookupVerdict:
        if not self._settings.enable_prefix_caching:
            return "disabled"
        if one.request.skip_reading_prefix_cache:
            return "skipped"
        if len(one.token_ids) <= self._settings.block_size:
            return "too_short"
        return "hit" if hits else "miss"

    def _defer(self, head: RecordedRequest, budget: int) -> None:
        """Record why the head of the queue was not admitted, by what ended vLLM's scheduling loop."""
        settings, num_running = self._settings, len(self._running)
        found: tuple[DeferReason, int, int] | None = None
        hits = self._hits.get(head.seq_id, [])
        if self._has_preempted:
            hits = self._find_hits(head)
            num_tokens = len(head.token_ids) - len(hits) * settings.block_size
            if settings.enable_chunked_prefill:
                num_tokens = min(num_tokens, settings.max_num_batched_tokens)
            found = ("step_preempted", *self._demand(hits, len(hits) * settings.block_size + num_tokens))
        elif num_running >= settings.max_num_seqs:
            found = ("max_num_seqs", 1, settings.max_num_seqs - num_running)
        elif self._refused is not None and self._refused[0] is head:
            end = len(hits) * settings.block_size + self._refused[1]
            if settings.scheduler_reserve_full_isl:
                end = max(end, len(head.token_ids))
            found = ("no_free_blocks", *self._demand(hits, end))
        elif budget <= 0 or not settings.enable_chunked_prefill:
            hits = self._find_hits(head)
            missing = len(head.token_ids) - len(hits) * settings.block_size
            found = ("token_budget", 1 if settings.enable_chunked_prefill else missing, max(budget, 0))
        if found is not None:
            reason, needed, available = found
            self._emit(Defer(seq_id=head.seq_id, reason=reason, needed=needed, available=available))

    def _find_hits(self, one: RecordedRequest) -> list[int]:
        """Return the blocks that a lookup would find now."""
        if not self._settings.enable_prefix_caching or one.request.skip_reading_prefix_cache:
            return []
        return self._blocks.find(one.request.block_hashes, len(one.token_ids))

    def _demand(self, hits: list[int], num_tokens: int) -> tuple[int, int]:
        """Return the number of blocks needed in addition to the hits, and the number of available blocks."""
        revived = sum(self._blocks.is_free(block_id) for block_id in hits if block_id != RELEASED)
        needed = max(-(-num_tokens // self._settings.block_size) - len(hits), 0)
        return needed, self._blocks.num_free - revived
