"""Replay of a log's requests through scheduler and cache, without a model and with any number of blocks.

A request arrives after the same number of steps as in the log, with the logged tokens. A further turn arrives the same
number of steps after the end of the previous turn (closed loop). Idle steps before the next arrival are skipped. A
sequence that was aborted or unfinished in the log may run longer in the replay; its further tokens are pseudorandom.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from heapq import heappop, heappush

import msgspec
from msgspec.structs import replace

from engine.accounting.memory import stored_bytes_per_token
from engine.cache.kv_cache_manager import KVCacheManager
from engine.config import ConfigError, EngineConfig
from engine.scheduling.capacity import slots_required
from engine.scheduling.sequence import Sequence
from engine.setup.build_scheduler import build_scheduler
from engine.setup.resolve import Resolved
from engine.simulate.drawn import RandomTokens
from engine.simulate.replay_inputs import (
    TOKENS,
    Arrival,
    ComputedSpan,
    Decisions,
    Inputs,
    LoggedRequest,
    LoggedSequence,
    ReplayError,
)
from engine.simulate.without_model import resolve_without_model
from engine.trace.operations import FinishReason, Op
from engine.trace.records import Header, ModelFacts, RecordKind


class Replay:
    """Replay of a log, for a single use. `num_blocks`: None for the number in the log.

    Raises:
        ReplayError: the settings or the pool size are not supported.
    """

    def __init__(self, header: Header, inputs: Inputs, num_blocks: int | None = None) -> None:
        resolved = _resolved(header, num_blocks)
        self.config = resolved.config
        self.num_refused = 0  # requests that do not fit into the pool
        self._inputs = inputs
        self._ops: list[Op] = []
        self._cache = _cache(header.model, resolved, self._ops)
        self._scheduler = build_scheduler(self.config, self._cache, self._ops.append, None)
        self._random_tokens = RandomTokens(max(1, header.model.vocab_size), 0)
        self._live: dict[
            int, tuple[Sequence, LoggedRequest, LoggedSequence | None]
        ] = {}  # by seq_id; None: the sequence is not in the log
        self._next_seq_id = self._num_records = self._num_steps = 0
        self._skipped = 0  # number of skipped idle steps
        self._due: list[tuple[int, int]] = []  # heap of arrivals: step, index
        self._event_steps: dict[tuple[int, str], int] = {}  # (id() of a request, event) -> step
        self._waiting: dict[tuple[int, str], list[int]] = {}  # event -> arrivals that wait for it
        self._ended: list[LoggedRequest] = []  # in the current step

    def records(self) -> Iterator[Decisions]:
        """Yield the decisions record by record."""
        for index, arrival in enumerate(self._inputs.arrivals):
            self._schedule_arrival(index, arrival)
        while True:
            clock = self._num_steps + self._skipped
            if self._due and (not self._live or self._due[0][0] <= clock):
                due, index = heappop(self._due)
                self._skipped = max(self._skipped, due - self._num_steps)
                yield self._arrive(self._inputs.arrivals[index])
            elif self._live and (self._inputs.is_complete or clock < self._inputs.num_steps):
                yield self._step()
            else:
                return

    def _schedule_arrival(self, index: int, arrival: Arrival) -> None:
        """Schedule an arrival at the same number of steps after the awaited event as in the log."""
        due = list[int]()
        for request in arrival.requests:
            awaited, event = (request.after, "ended") if arrival.kind == "submit" else (request, "submitted")
            if awaited is None:
                due.append(arrival.step)
                continue
            key = id(awaited), event
            if key not in self._event_steps:
                self._waiting.setdefault(key, []).append(index)
                return
            in_log = awaited.ended if event == "ended" else awaited.submitted
            due.append(self._event_steps[key] + arrival.step - in_log)
        heappush(self._due, (max(due, default=arrival.step), index))

    def _mark_event(self, request: LoggedRequest, event: str) -> None:
        key = (id(request), event)
        self._event_steps[key] = self._num_steps + self._skipped
        for index in self._waiting.pop(key, ()):
            self._schedule_arrival(index, self._inputs.arrivals[index])

    def _arrive(self, arrival: Arrival) -> Decisions:
        for request in arrival.requests:
            if arrival.kind == "submit":
                self._submit(request)
                continue
            for sequence, one, _ in list(self._live.values()):
                if one is request and arrival.kind == "abort":
                    self._finish(sequence, "abort", "")
                elif one is request and arrival.max_tokens is not None and self._fits(sequence, arrival.max_tokens):
                    sequence.max_tokens = arrival.max_tokens
        return self._record(arrival.kind, [])

    def _fits(self, sequence: Sequence, max_tokens: int) -> bool:
        """Return whether the sequence fits into the pool with that limit; otherwise an engine refuses the new limit."""
        longest = slots_required(sequence.num_prompt_tokens, max_tokens)
        demand = self._cache.max_demand(longest, self.config.tokens_a_step or longest)
        return demand.needed <= demand.available

    def _submit(self, request: LoggedRequest) -> None:
        seq_id = self._next_seq_id
        sequence = Sequence(
            seq_id=seq_id,
            request_id=request.request_id,
            token_ids=request.prompt.tolist(),
            num_prompt_tokens=len(request.prompt),
            max_tokens=request.max_tokens,
            priority=request.priority,
            cache_salt=request.cache_salt,
            arrival=seq_id,
            num_forks=request.num_forks,
            skip_reading_prefix_cache=request.scores_prompt,
        )
        try:
            self._scheduler.add(sequence, [], {})
        except ValueError:
            self.num_refused += 1
            self._mark_event(request, "submitted")
            self._mark_event(request, "ended")
            return
        self._next_seq_id += 1
        self._live[seq_id] = (sequence, request, request.sequences[0])
        self._mark_event(request, "submitted")

    def _step(self) -> Decisions:
        scheduler = self._scheduler
        scheduled = scheduler.schedule()
        self._cache.take_moves()  # discarded, because there are no tensors
        batch = [ComputedSpan(sequence.seq_id, start, start + count) for sequence, start, count in scheduled]
        scheduler.commit(scheduled)
        chosen = list[Sequence]()
        for sequence, start, count in scheduled:
            if start + count >= sequence.num_prompt_tokens - 1:
                sequence.skip_reading_prefix_cache = False  # the prompt's log probabilities are computed
            if sequence.num_computed_tokens == len(sequence.token_ids):
                chosen.append(sequence)
                chosen += [self._fork(sequence) for _ in range(sequence.num_forks)]
        for sequence in chosen:
            self._append(sequence)
        if self.config.strategy == "none":
            scheduler.discard([one for one in scheduler.running if one.num_computed_tokens])
        self._num_steps += 1
        for request in self._ended:
            self._mark_event(request, "ended")
        self._ended.clear()
        return self._record("step", batch)

    def _fork(self, parent: Sequence) -> Sequence:
        _, request, _ = self._live[parent.seq_id]
        member = 1 + request.num_forks - parent.num_forks
        child = self._scheduler.fork(parent, self._next_seq_id, request.request_id)
        logged = request.sequences[member] if member < len(request.sequences) else None
        self._live[child.seq_id] = (child, request, logged)
        self._next_seq_id += 1
        return child

    def _append(self, sequence: Sequence) -> None:
        _, request, logged = self._live[sequence.seq_id]
        output = logged.token_ids if logged is not None else array(TOKENS)
        at = len(sequence.token_ids) - sequence.num_prompt_tokens
        position = len(sequence.token_ids)
        token_id = (
            output[at] if at < len(output) else self._random_tokens.at(f"{request.request_id}/{id(logged)}", position)
        )
        self._scheduler.append_token(sequence, token_id)
        if logged is not None and logged.reason is not None and at + 1 == len(output):
            self._finish(sequence, logged.reason, logged.detail)
        elif at + 1 >= sequence.max_tokens:
            self._finish(sequence, "length", f"max_tokens {sequence.max_tokens}")

    def _finish(self, sequence: Sequence, reason: FinishReason, detail: str) -> None:
        self._scheduler.finish(sequence, reason, detail)
        _, request, _ = self._live.pop(sequence.seq_id)
        if reason != "abort" and not any(other is request for _, other, _ in self._live.values()):
            self._ended.append(request)

    def _record(self, kind: RecordKind, batch: list[ComputedSpan]) -> Decisions:
        record = Decisions(self._num_records, kind, self._num_steps, self._ops.copy(), batch)
        self._ops.clear()
        self._num_records += 1
        self._cache.tick(self._num_records, self._num_steps)
        return record


def _cache(facts: ModelFacts, resolved: Resolved, ops: list[Op]) -> KVCacheManager:
    config, groups = resolved.config, resolved.groups
    sizes = [
        stored_bytes_per_token(replace(facts, num_layers=len(group.layers)), config.kv_cache_dtype) for group in groups
    ]
    caching = config.enable_prefix_caching
    return KVCacheManager(groups, config.block_size, caching, ops.append, resolved.swap_space, sizes)


def _resolved(header: Header, num_blocks: int | None) -> Resolved:
    try:
        config = msgspec.convert(header.engine, EngineConfig)
        wanted = config if num_blocks is None else replace(config, num_blocks=num_blocks)
        return resolve_without_model(wanted, header.model)
    except (msgspec.ValidationError, ConfigError) as error:
        raise ReplayError(f"the run cannot be replayed with such settings: {error}") from error
