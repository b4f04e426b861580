"""Accounting of a log's requests: computes a row per request and per sequence from the operations.

Figures, metrics and tracks are computed from these rows (`RequestRow`, `SequenceRow`), so that only this module tracks
sequences. Times in rows are readings of a `Clock`: engine time, or the clock of a live server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

from engine.trace.busy_time import Clock
from engine.trace.operations import (
    Adjust,
    Admit,
    Arrive,
    Await,
    BlockOp,
    Finish,
    FinishReason,
    Fork,
    Lookup,
    LookupVerdict,
    Lost,
    Preempt,
    Sample,
    Setting,
    Submit,
    TransferFailed,
)
from engine.trace.records import StepRecord
from engine.trace.request_parts import RequestParts

LOOKED_UP: tuple[LookupVerdict, ...] = ("hit", "miss", "too_short")
Status = Literal["waiting", "receiving", "running", "preempted", "finished"]


def time_in_queue(queued: float, admitted: float) -> float:
    """Return the seconds in the engine's queue; 0 if the admitting step began before the request arrived."""
    return max(0.0, admitted - queued)


def time_to_first_token(arrived: float, first: float) -> float:
    """Return TTFT in seconds: first token - arrival."""
    return first - arrived


def time_per_output_token(first: float, last: float, num_tokens: int) -> float | None:
    """Return TPOT: (last token - first token) / (tokens - 1), in seconds; None for fewer than two tokens."""
    return (last - first) / (num_tokens - 1) if num_tokens > 1 else None


@dataclass(slots=True)
class TokenTimes:
    """Times of a request's arrival and of its tokens, by the caller's clock."""

    arrived: float = 0.0
    tokens: list[float] = field(default_factory=list)
    num_more: int = 0  # number of tokens that arrived together with another one (accepted drafts)

    @property
    def ttft(self) -> float | None:
        """Time to first token, in seconds; None without a token."""
        return time_to_first_token(self.arrived, self.tokens[0]) if self.tokens else None

    @property
    def itl(self) -> list[float]:
        """Inter-token latencies, in seconds."""
        return [b - a for a, b in pairwise(self.tokens)]

    @property
    def tpot(self) -> float | None:
        """Time per output token, in seconds; None with fewer than two tokens."""
        count = len(self.tokens) + self.num_more
        return time_per_output_token(self.tokens[0], self.tokens[-1], count) if self.tokens else None


@dataclass(slots=True)
class Preempted:
    """Preemption of a request's sequence."""

    at: float
    reason: str
    mode: str


@dataclass(slots=True)
class RequestRow:
    """Request with all its sequences on all instances. Times are clock readings; None: not reached."""

    request_id: str
    model_name: str
    arrival: float  # arrival at the server, which is before `queued` if the request waited in the fair queue
    queued: float
    num_prompt_tokens: int
    max_tokens: int
    sampling: dict[str, Setting]
    scheduled: float | None = None  # start of the step that first admitted it
    prefilled: float | None = None  # end of prefill on a prefill instance
    first_token: float | None = None
    last_token: float | None = None
    ended: float | None = None
    num_cached_tokens: int = 0  # hit tokens at the first admission, in the pool or outside it
    num_external_tokens: int = 0  # hit tokens outside the pool
    num_output_tokens: int = 0  # total of all sequences
    num_sequences: int = 1
    num_alive: int = 1  # number of unfinished sequences
    longest_output: int = 0  # maximum tokens of a completed sequence
    reasons: list[str] = field(default_factory=list)  # finish reasons of its sequences
    preemptions: list[Preempted] = field(default_factory=list)

    @property
    def n(self) -> int:
        """Number of outputs requested."""
        n = self.sampling.get("n")
        return n if isinstance(n, int) else 1

    def prefill_seconds(self, first_token: float) -> float:
        """Return the seconds from the first admission until the prompt was computed. Requires an admission."""
        assert self.scheduled is not None
        return (self.prefilled or first_token) - self.scheduled


@dataclass(slots=True)
class SequenceRow:
    """Sequence. The parts of a request on several instances share a row. A fork begins with its parent's values."""

    request: RequestRow
    seq_id: int  # last part
    parts: list[int]  # seq_ids
    instance: int  # instance of the last part
    submitted_in: int  # record index of the first part's submission
    steps_before: int  # number of engine steps before the submission
    is_producer: bool  # its last part computes the prompt for another instance
    is_fork: bool = False
    status: Status = "finished"  # until `Account` sets it
    finish_reason: FinishReason | None = None
    outcome: str = ""  # finish reason, or `error` for an abort that the client did not request
    is_admitted: bool = False  # whether its last part has been admitted
    first_token: float | None = None
    last_token: float | None = None
    last_in: int = -1  # record index of the last token
    gap: float | None = None  # seconds between the last two tokens; None if they are of one step (accepted drafts)
    ttft_steps: int | None = None
    num_output_tokens: int = 0
    num_preemptions: int = 0
    lost_tokens: int = 0  # tokens computed at the last preemption; 0 once it is admitted again
    recomputed_tokens: int = 0  # lost tokens that the next admission did not find
    received_bytes: int = 0  # from other instances
    num_steps: int = 0  # number of steps that computed tokens of it
    computed_tokens: int = 0  # tokens computed in these steps
    blocks: int = 0  # held blocks
    blocks_peak: int = 0

    @property
    def uncached_prompt_tokens(self) -> int:
        """Number of prompt tokens that were computed for the sequence; 0 for a fork."""
        return 0 if self.is_fork else self.request.num_prompt_tokens - self.request.num_cached_tokens


class Account:
    """Computes the rows. For each record call `begin`, then the handler of each operation, if its type has one.

    Handlers raise KeyError for an unknown sequence. They are in a table, so that a caller can replace handlers in a
    copy of it, and an operation costs one lookup.

    Args:
        is_shared: whether sequences of several instances may be parts of one request; if not, each is a request.
        drop_rows: drop the rows of ended sequences, to bound memory.
    """

    def __init__(self, clock: Clock, is_shared: bool = False, *, model_name: str = "", drop_rows: bool = False) -> None:
        self.rows: dict[int, SequenceRow] = {}  # by seq_id of each part
        self.ended: list[SequenceRow] = []  # sequences that ended in the record
        self.completed: list[RequestRow] = []  # requests whose last sequence ended in the record
        self.num_running = 0
        self.num_waiting = 0
        self.parts = RequestParts(is_shared)
        self._clock, self._model_name, self._drop_rows = clock, model_name, drop_rows
        self._held: dict[int, Counter[int]] = {}  # instance -> seq_id -> held blocks
        self._record: StepRecord
        self.handlers: dict[type, Callable[[Any], object]] = {
            Submit: self._submit, Fork: self._fork, Admit: self.admit, Sample: self.sample, Adjust: self._adjust,
            Preempt: self.preempt, Await: self._await, Arrive: self.arrive, TransferFailed: self.transfer_failed,
            Finish: self._finish, Lost: self._lose,
        }  # fmt: skip

    def begin(self, record: StepRecord) -> None:
        """Begin the next record."""
        self._clock.read(record)
        self._record, self.ended, self.completed = record, [], []

    def read(self, record: StepRecord) -> None:
        """Read a record and its operations."""
        self.begin(record)
        for op in record.ops:
            if (handler := self.handlers.get(type(op))) is not None:
                handler(op)

    def read_batch(self) -> None:
        """Count the computed tokens of each sequence in the record's batch."""
        for entry in self._record.batch:
            row = self.rows[entry.seq_id]
            row.num_steps += 1
            row.computed_tokens += len(entry.token_ids)

    def hold(self, op: BlockOp) -> None:
        """Count the blocks that an operation adds to its sequence, or removes from it."""
        row = self.rows[op.seq_id]
        self._held.setdefault(self._record.instance, Counter())[op.seq_id] += op.holds
        row.blocks += op.holds
        row.blocks_peak = max(row.blocks_peak, row.blocks)

    def is_query(self, op: Lookup) -> bool:
        """Return whether a lookup counts in the hit rate: it precedes the request's first admission on any instance.

        As in vLLM, lookups after a preemption do not count. Those of a decode instance precede a transfer.
        """
        return op.verdict in LOOKED_UP and self.rows[op.seq_id].request.scheduled is None

    def _submit(self, op: Submit) -> None:
        before = self.parts.read(op, self._record.instance)
        if before is not None:
            self._add_part(op, before)
            return
        now = self._clock.now
        request = RequestRow(
            self.parts.request_id(op), self._model_name, now - op.waited, now, len(op.prompt_token_ids), op.max_tokens,
            op.sampling,
        )  # fmt: skip
        row = self.rows[op.seq_id] = SequenceRow(
            request, op.seq_id, [op.seq_id], self._record.instance, self._record.index, self._record.step,
            self._is_producer(op),
        )  # fmt: skip
        self._move(row, "waiting")

    def _add_part(self, op: Submit, before: int) -> None:
        """Continue the row of part `before` with the next part of the request."""
        row = self.rows[op.seq_id] = self.rows[before]
        if self._drop_rows:
            del self.rows[before]
        row.parts.append(op.seq_id)
        row.seq_id, row.instance = op.seq_id, self._record.instance
        row.is_producer, row.is_admitted, row.finish_reason = self._is_producer(op), False, None
        self._move(row, "waiting")

    def _is_producer(self, op: Submit) -> bool:
        return self.parts.is_shared and op.kv_role == "kv_producer"

    def _fork(self, op: Fork) -> None:
        self.parts.read(op, self._record.instance)
        parent = self.rows[op.parent_seq_id]
        parent.request.num_sequences += 1
        parent.request.num_alive += 1
        row = self.rows[op.seq_id] = replace(
            parent, seq_id=op.seq_id, parts=[op.seq_id], submitted_in=self._record.index, is_producer=False,
            is_fork=True, status="finished", num_preemptions=0, num_steps=0, computed_tokens=0,
            blocks_peak=parent.blocks,
        )  # fmt: skip
        self._move(row, "running")

    def admit(self, op: Admit) -> None:
        """Handle an admission."""
        row = self.rows[op.seq_id]
        request = row.request
        self._move(row, "running")
        row.is_admitted = True
        num_found = op.num_cached_tokens + op.num_swapped_tokens + op.num_external_tokens
        row.recomputed_tokens += max(0, row.lost_tokens - num_found)
        row.lost_tokens = 0
        if request.scheduled is None:  # an earlier part computed the cached tokens of a later part, so they are no hits
            request.scheduled = self._clock.began
            request.num_cached_tokens = op.num_cached_tokens + op.num_external_tokens
            request.num_external_tokens = op.num_external_tokens

    def sample(self, op: Sample) -> SequenceRow:
        """Handle a sampled token, and return the row of its sequence."""
        row, now = self.rows[op.seq_id], self._clock.now
        request = row.request
        if self.parts.is_shared:
            self.parts.read(op, self._record.instance)
            if row.is_producer:  # the decode instance samples this token again
                request.prefilled = now
                return row
        if row.last_token is None:
            row.first_token, row.ttft_steps = now, self._record.step - row.steps_before
            if request.first_token is None:
                request.first_token = now
        else:
            row.gap = now - row.last_token if row.last_in < self._record.index else None
        row.last_token = request.last_token = now
        row.last_in = self._record.index
        row.num_output_tokens += 1
        request.num_output_tokens += 1
        return row

    def _adjust(self, op: Adjust) -> None:
        for seq_id in op.seq_ids:
            self.rows[seq_id].request.max_tokens = op.max_tokens

    def preempt(self, op: Preempt) -> None:
        """Handle a preemption."""
        row = self.rows[op.seq_id]
        self._move(row, "preempted")
        row.num_preemptions += 1
        row.lost_tokens = op.num_computed_tokens
        row.request.preemptions.append(Preempted(self._clock.now, op.reason, op.mode))

    def _await(self, op: Await) -> None:
        self._move(self.rows[op.seq_id], "receiving")

    def arrive(self, op: Arrive) -> None:
        """Handle the end of a transfer."""
        row = self.rows[op.seq_id]
        self._move(row, "waiting")
        row.received_bytes += op.num_bytes

    def transfer_failed(self, op: TransferFailed) -> None:
        """Handle a failed transfer."""
        self._move(self.rows[op.seq_id], "waiting")

    def _finish(self, op: Finish) -> None:
        self.parts.read(op, self._record.instance)
        row = self.rows[op.seq_id]
        self._move(row, "finished")
        row.finish_reason = op.reason
        if row.is_producer and op.reason != "abort":
            return
        if op.reason in ("stop", "length"):
            row.request.longest_output = max(row.request.longest_output, row.num_output_tokens)
        self._end(row, "error" if op.reason == "abort" and op.detail else op.reason)

    def _lose(self, op: Lost) -> None:
        """End an instance's sequences, except those whose requests may continue on another instance."""
        self.parts.read(op, self._record.instance)
        instance = self._record.instance
        own = [row for seq_id, row in self.rows.items() if row.instance == instance and row.seq_id == seq_id]
        for row in own:
            if row.status != "finished":
                self._move(row, "finished")
                row.finish_reason = "abort"
                if row.seq_id not in self.parts.may_continue:
                    self._end(row, "error")
        for seq_id, blocks in self._held.pop(self._record.instance, Counter[int]()).items():
            self.rows[seq_id].blocks -= blocks

    def _end(self, row: SequenceRow, outcome: str) -> None:
        row.outcome = outcome
        self.ended.append(row)
        if outcome != "dropped":  # a pruned beam is no output
            row.request.reasons.append(outcome)
        row.request.num_alive -= 1
        if not row.request.num_alive:
            row.request.ended = self._clock.now
            self.completed.append(row.request)
        if self._drop_rows:
            del self.rows[row.seq_id]

    def _move(self, row: SequenceRow, status: Status) -> None:
        before, runs = row.status, status == "running"
        self.num_running += runs - (before == "running")
        self.num_waiting += (not runs and status != "finished") - (before not in ("running", "finished"))
        row.status = status
