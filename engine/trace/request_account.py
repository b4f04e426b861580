"""Account of a log's requests: what became of each, in rows, from one fold over the operations.

`Account` reads records and keeps a `RequestRow` a request and a `SequenceRow` a sequence. Readers (figures, metrics,
tracks) take the rows, and the durations from the functions below; none follows a sequence by itself. The times in rows
are readings of a `Clock`: engine time, or a live server's.
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
    Lost,
    Preempt,
    Sample,
    Setting,
    Submit,
    TransferFailed,
)
from engine.trace.parts import RequestParts
from engine.trace.records import StepRecord

Status = Literal["waiting", "receiving", "running", "preempted", "finished"]


def time_in_queue(queued: float, admitted: float) -> float:
    """Return the seconds in the engine's queue; the step that admits a request may have begun before it came."""
    return max(0.0, admitted - queued)


def time_to_first_token(arrived: float, first: float) -> float:
    """Return TTFT, in seconds: first token - arrival."""
    return first - arrived


def time_per_output_token(first: float, last: float, num_tokens: int) -> float | None:
    """Return TPOT: (last token - first token) / (tokens - 1), in seconds; None for fewer than two tokens."""
    return (last - first) / (num_tokens - 1) if num_tokens > 1 else None


@dataclass(slots=True)
class TokenTimes:
    """Readings of a caller's clock: a request's arrival, and each moment at which it got a token or more."""

    arrived: float = 0.0
    tokens: list[float] = field(default_factory=list)
    num_more: int = 0  # tokens that came at the moment of another one: accepted drafts

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
    """A request: all its sequences, on all instances. Times are readings of the clock; None: not reached."""

    request_id: str
    model_name: str
    arrival: float  # at the server; before `queued` if it waited among its client's other requests
    queued: float
    num_prompt_tokens: int
    max_tokens: int
    sampling: dict[str, Setting]
    scheduled: float | None = None  # when the step began that admitted it first
    prefilled: float | None = None  # when the instance that computes only its prompt was done
    first_token: float | None = None
    last_token: float | None = None
    ended: float | None = None
    num_cached_tokens: int = 0  # at the first admission: in the pool or outside it
    num_external_tokens: int = 0  # of these, outside it
    num_output_tokens: int = 0  # of all sequences
    num_sequences: int = 1
    num_alive: int = 1
    longest_output: int = 0  # of the sequences that completed
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
    """A sequence; parts of one request on several instances share a row. A fork's begins with its parent's marks."""

    request: RequestRow
    seq_id: int  # of the last part
    parts: list[int]  # sequences
    instance: int  # of the last part
    submitted_in: int  # record; of the first part
    steps_before: int  # the engine's, when the request was submitted
    is_producer: bool  # its last part computes a prompt for another instance
    is_fork: bool = False
    status: Status = "finished"  # until `Account` sets it
    finish_reason: FinishReason | None = None
    outcome: str = ""  # its finish reason, or `error` for an end that its client did not ask for
    is_admitted: bool = False  # its last part, at least once
    first_token: float | None = None
    last_token: float | None = None
    last_in: int = -1  # record of the last token
    gap: float | None = None  # seconds between the last two tokens; None: of one step, as accepted drafts are
    ttft_steps: int | None = None
    num_output_tokens: int = 0
    num_preemptions: int = 0
    received_bytes: int = 0  # of what another instance computed
    num_steps: int = 0  # that computed something of it
    computed_tokens: int = 0  # in these
    blocks: int = 0  # held now
    blocks_peak: int = 0

    @property
    def uncached_prompt_tokens(self) -> int:
        """Prompt tokens that were computed for it; a fork has computed none."""
        return 0 if self.is_fork else self.request.num_prompt_tokens - self.request.num_cached_tokens


class Account:
    """The fold. Call `begin` for each record, then of each of its operations the handler of its type, if there is one.

    Handlers raise KeyError for a sequence that no record before has. They are a table, and not a method that looks them
    up, because a live reader puts its own into a copy of it: an operation then costs one look-up.

    Args:
        is_shared: whether sequences of several instances may be parts of one request; otherwise each is one by itself.
        forgets: drop rows when their sequences end, so that memory is bounded by what is alive.
    """

    def __init__(self, clock: Clock, is_shared: bool = False, *, model_name: str = "", forgets: bool = False) -> None:
        self.rows: dict[int, SequenceRow] = {}  # by sequence, under each of its parts
        self.ended: list[SequenceRow] = []  # in the record
        self.over: list[RequestRow] = []  # whose last sequence ended in the record
        self.num_running = 0
        self.num_waiting = 0
        self.parts = RequestParts(is_shared)
        self._clock, self._model_name, self._forgets = clock, model_name, forgets
        self._held: dict[int, Counter[int]] = {}  # blocks by instance and sequence
        self._record: StepRecord
        self.handlers: dict[type, Callable[[Any], object]] = {
            Submit: self._submit, Fork: self._fork, Admit: self.admit, Sample: self.sample, Adjust: self._adjust,
            Preempt: self.preempt, Await: self._await, Arrive: self.arrive, TransferFailed: self.transfer_failed,
            Finish: self._finish, Lost: self._lose,
        }  # fmt: skip

    def begin(self, record: StepRecord) -> None:
        """Read a record's clock."""
        self._clock.read(record)
        self._record, self.ended, self.over = record, [], []

    def read(self, record: StepRecord) -> None:
        """Read a record and its operations."""
        self.begin(record)
        for op in record.ops:
            if (handler := self.handlers.get(type(op))) is not None:
                handler(op)

    def read_batch(self) -> None:
        """Count what the record computed, by sequence."""
        for entry in self._record.batch:
            row = self.rows[entry.seq_id]
            row.num_steps += 1
            row.computed_tokens += len(entry.token_ids)

    def hold(self, op: BlockOp) -> None:
        """Count the blocks that an operation gives to its sequence, or takes from it."""
        row = self.rows[op.seq_id]
        self._held.setdefault(self._record.instance, Counter())[op.seq_id] += op.holds
        row.blocks += op.holds
        row.blocks_peak = max(row.blocks_peak, row.blocks)

    def _submit(self, op: Submit) -> None:
        before = self.parts.read(op, self._record.instance)
        if before is not None:
            self._go_on(op, before)
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

    def _go_on(self, op: Submit, before: int) -> None:
        """The next part of a request: the same row, from now on about this sequence."""
        row = self.rows[op.seq_id] = self.rows[before]
        if self._forgets:
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
        """Read an admission."""
        row = self.rows[op.seq_id]
        request = row.request
        self._move(row, "running")
        row.is_admitted = True
        if request.scheduled is None:  # what a later part has was computed for it, not found
            request.scheduled = self._clock.began
            request.num_cached_tokens = op.num_cached_tokens + op.num_external_tokens
            request.num_external_tokens = op.num_external_tokens

    def sample(self, op: Sample) -> SequenceRow:
        """Read a token; return its sequence's row."""
        row, now = self.rows[op.seq_id], self._clock.now
        request = row.request
        if self.parts.is_shared:
            self.parts.read(op, self._record.instance)
            if row.is_producer:  # the decoding instance samples this token again
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
        """Read a preemption."""
        row = self.rows[op.seq_id]
        self._move(row, "preempted")
        row.num_preemptions += 1
        row.request.preemptions.append(Preempted(self._clock.now, op.reason, op.mode))

    def _await(self, op: Await) -> None:
        self._move(self.rows[op.seq_id], "receiving")

    def arrive(self, op: Arrive) -> None:
        """Read the end of a transfer."""
        row = self.rows[op.seq_id]
        self._move(row, "waiting")
        row.received_bytes += op.num_bytes

    def transfer_failed(self, op: TransferFailed) -> None:
        """Read a transfer that failed."""
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
        """The instance has ended; other parts may follow those of its sequences that have given no token."""
        self.parts.read(op, self._record.instance)
        instance = self._record.instance
        there = [row for seq_id, row in self.rows.items() if row.instance == instance and row.seq_id == seq_id]
        for row in there:
            if row.status != "finished":
                self._move(row, "finished")
                row.finish_reason = "abort"
                if row.seq_id not in self.parts.left_open:
                    self._end(row, "error")
        for seq_id, blocks in self._held.pop(self._record.instance, Counter[int]()).items():
            self.rows[seq_id].blocks -= blocks

    def _end(self, row: SequenceRow, outcome: str) -> None:
        row.outcome = outcome
        self.ended.append(row)
        if outcome != "dropped":  # a beam that others beat is no output
            row.request.reasons.append(outcome)
        row.request.num_alive -= 1
        if not row.request.num_alive:
            row.request.ended = self._clock.now
            self.over.append(row.request)
        if self._forgets:
            del self.rows[row.seq_id]

    def _move(self, row: SequenceRow, status: Status) -> None:
        was, runs = row.status, status == "running"
        self.num_running += runs - (was == "running")
        self.num_waiting += (not runs and status != "finished") - (was not in ("running", "finished"))
        row.status = status
