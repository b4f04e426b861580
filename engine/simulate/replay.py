"""Replay of a log's requests through scheduler and cache, with any number of blocks and no model.

A request arrives after as many steps as in the log, with the logged tokens. A further turn arrives as many steps after
the end of the previous turn as in the log (closed loop). Idle steps up to the next arrival are skipped. Tokens that the
log lacks are pseudorandom: those of sequences that were aborted or unfinished there and get further here.
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
from engine.simulate.drawn import DrawnTokens
from engine.simulate.replay_inputs import (
    TOKENS,
    Arrival,
    Decided,
    Inputs,
    LoggedRequest,
    LoggedSequence,
    ReplayError,
    Share,
)
from engine.simulate.without_model import resolve_without_model
from engine.trace.operations import FinishReason, Op
from engine.trace.records import Header, ModelFacts, RecordKind


class Replay:
    """Replay of a log; single use. `num_blocks` None: as in the log.

    Raises:
        ReplayError: unsupported settings, or an impossible pool.
    """

    def __init__(self, header: Header, inputs: Inputs, num_blocks: int | None = None) -> None:
        resolved = _resolved(header, num_blocks)
        self.config = resolved.config
        self.num_refused = 0  # requests that do not fit into the pool
        self._inputs = inputs
        self._ops: list[Op] = []
        self._cache = _cache(header.model, resolved, self._ops)
        self._scheduler = build_scheduler(self.config, self._cache, self._ops.append, None)
        self._drawn = DrawnTokens(max(1, header.model.vocab_size), 0)
        self._live: dict[
            int, tuple[Sequence, LoggedRequest, LoggedSequence | None]
        ] = {}  # by seq_id; None: not in the log
        self._next_seq_id = self._num_records = self._num_steps = 0
        self._skipped = 0  # idle steps of the log
        self._due: list[tuple[int, int]] = []  # heap of arrivals: step, index
        self._happened: dict[tuple[int, str], int] = {}  # step in which a request, by id(), arrived or ended
        self._waiting: dict[tuple[int, str], list[int]] = {}  # arrivals that wait for such an event
        self._ended: list[LoggedRequest] = []  # in the current step

    def records(self) -> Iterator[Decided]:
        """Yield the decisions record by record."""
        for index, arrival in enumerate(self._inputs.arrivals):
            self._await(index, arrival)
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

    def _await(self, index: int, arrival: Arrival) -> None:
        """Schedule an arrival relative to the event it waits for, with the delay in steps of the log."""
        due = list[int]()
        for request in arrival.requests:
            before, what = (request.after, "ended") if arrival.kind == "submit" else (request, "came")
            if before is None:
                due.append(arrival.step)
                continue
            key = id(before), what
            if key not in self._happened:
                self._waiting.setdefault(key, []).append(index)
                return
            in_log = before.ended if what == "ended" else before.came
            due.append(self._happened[key] + arrival.step - in_log)
        heappush(self._due, (max(due, default=arrival.step), index))

    def _happen(self, request: LoggedRequest, what: str) -> None:
        key = (id(request), what)
        self._happened[key] = self._num_steps + self._skipped
        for index in self._waiting.pop(key, ()):
            self._await(index, self._inputs.arrivals[index])

    def _arrive(self, arrival: Arrival) -> Decided:
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
        """Return whether the pool has room for the sequence under another limit; an engine refuses what has none."""
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
            self._happen(request, "came")
            self._happen(request, "ended")
            return
        self._next_seq_id += 1
        self._live[seq_id] = (sequence, request, request.sequences[0])
        self._happen(request, "came")

    def _step(self) -> Decided:
        scheduler = self._scheduler
        scheduled = scheduler.schedule()
        self._cache.take_moves()  # dropped: there are no tensors
        batch = [Share(sequence.seq_id, start, start + count) for sequence, start, count in scheduled]
        scheduler.commit(scheduled)
        chosen = list[Sequence]()
        for sequence, start, count in scheduled:
            if start + count >= sequence.num_prompt_tokens - 1:
                sequence.skip_reading_prefix_cache = False  # its prompt is scored
            if sequence.num_computed_tokens == len(sequence.token_ids):
                chosen.append(sequence)
                chosen += [self._fork(sequence) for _ in range(sequence.num_forks)]
        for sequence in chosen:
            self._append(sequence)
        if self.config.strategy == "none":
            scheduler.discard([one for one in scheduler.running if one.num_computed_tokens])
        self._num_steps += 1
        for request in self._ended:
            self._happen(request, "ended")
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
        token_id = output[at] if at < len(output) else self._drawn.at(f"{request.request_id}/{id(logged)}", position)
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

    def _record(self, kind: RecordKind, batch: list[Share]) -> Decided:
        record = Decided(self._num_records, kind, self._num_steps, self._ops.copy(), batch)
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
