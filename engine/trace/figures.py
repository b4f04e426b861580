"""Figures of a run, computed from its records: per sequence, in total and per step.

Seconds are engine time (`engine.trace.busy_time`), which excludes pauses between steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import zip_longest

from msgspec import Struct

from engine.trace.busy_time import EngineClock, step_seconds
from engine.trace.geometry import TraceStateError, geometry, group_index
from engine.trace.limits import UNITS_PER_SLOT, Budget, TooMuchError
from engine.trace.operations import (
    Allocate,
    Arrive,
    BlockOp,
    Copy,
    Evict,
    FinishReason,
    Fork,
    Free,
    Lookup,
    Op,
    Preempt,
    Release,
    Sample,
    Share,
    Submit,
    SwapIn,
    SwapOut,
)
from engine.trace.record_outputs import RecordOutputs
from engine.trace.records import Header, Output, StepRecord
from engine.trace.request_account import (
    Account,
    SequenceRow,
    Status,
    time_in_queue,
    time_per_output_token,
    time_to_first_token,
)


class Token(Struct, frozen=True, kw_only=True):
    """Output token, and the step that sampled it."""

    token_id: int
    token_bytes: bytes
    logprob: float
    record: int
    step: int
    chosen: bool = False  # a person replaced the sampled token (`choose`)


class SequenceFigures(Struct, kw_only=True):
    """Figures of a sequence. If its request spans several instances, they cover its parts on all instances."""

    seq_id: int  # last part
    parts: list[int]  # seq_ids
    prompt_token_ids: list[int]
    tokens: list[Token] = []  # in order; a fork begins with its parent's tokens
    status: Status = "waiting"
    finish_reason: FinishReason | None = None
    submitted_in: int  # record index of the first part's submission
    num_cached_tokens: int = 0  # tokens in the pool or outside it at the first admission
    received_bytes: int = 0  # from other instances
    num_preemptions: int = 0
    num_steps: int = 0  # steps that computed tokens of the sequence
    computed_tokens: int = 0  # in these steps; recomputed tokens count again
    blocks: int = 0  # blocks held after the last record
    blocks_peak: int = 0
    queue: float | None = None  # engine seconds from the submission to the start of the step that first admitted it
    ttft: float | None = None  # engine seconds from the submission to the end of the step of the first token
    ttft_steps: int | None = None
    seconds: float | None = None  # engine seconds from the submission to the end of the step of the last token so far

    @property
    def tpot(self) -> float | None:
        """Time per output token: (last token - first token) / (tokens - 1); None for fewer than two tokens."""
        if self.seconds is None or self.ttft is None:
            return None
        return time_per_output_token(self.ttft, self.seconds, len(self.tokens))


class Totals(Struct, kw_only=True):
    """Totals of a run."""

    num_records: int = 0
    num_steps: int = 0
    seconds: float = 0.0  # engine time of all steps
    requests: int = 0
    unfinished: int = 0  # number of sequences
    output_tokens: int = 0
    computed_tokens: int = 0
    asked_tokens: int = 0  # tokens queried in the prefix cache at first admissions
    hit_tokens: int = 0
    preemptions: int = 0
    evictions: int = 0
    copies: int = 0
    swapped_bytes: int = 0  # in both directions
    received_bytes: int = 0  # between instances
    blocks_peak: int = 0  # maximum of held blocks, also within a step
    bytes_peak: int = 0
    wasted_peak: int = 0  # maximum of held bytes without content after a record
    flops: int = 0  # derived from the model and the batches, not measured
    bytes_moved: int = 0  # weights and KV, read and written; derived like `flops`
    operations: dict[str, int] = {}  # operation type -> count


class Point(Struct, frozen=True, kw_only=True):
    """Pool usage and time of a step."""

    record: int
    step: int
    blocks_held: int  # maximum within the step
    bytes_held: int
    seconds: float


class RunFigures(Struct, kw_only=True):
    """Figures of a run."""

    totals: Totals
    series: list[Point]


def peak_held(record: StepRecord, held: int, size: Callable[[int], int]) -> int:
    """Return the peak of held blocks within a record that ends with `held`, where block i counts `size(i)`.

    The figures after a record miss blocks that it frees, as at the end of a sequence. So the record's operations are
    undone one by one, from the last to the first.
    """
    peak = held
    for op in reversed(record.ops):
        if isinstance(op, Free | Release) and op.to is not None:
            held += size(op.block_id)
        elif isinstance(op, Allocate) or (isinstance(op, Share) and op.revived):
            held -= size(op.block_id)
        peak = max(peak, held)
    return peak


class RunReading:
    """Computes figures from records in order. Raises TraceStateError if the header is invalid."""

    def __init__(self, header: Header) -> None:
        self._members: dict[tuple[str, int], list[SequenceRow]] = {}  # (request_id, number) -> sequences
        self._num_requests: Counter[str] = Counter()  # by request_id
        self._of: dict[int, tuple[tuple[str, int], list[int], list[Token]]] = {}  # seq_id -> request, prompt, tokens
        self._operations: Counter[str] = Counter()
        self._clock = EngineClock(len(header.instances) > 1)
        self._account = Account(self._clock, len(header.instances) > 1)
        self._totals = Totals()
        self.queries: list[Lookup] = []  # queries of the prefix cache in the last record
        self._series: list[Point] = []
        self._block_size, self._groups, *_ = geometry(header)
        self._budget = Budget()

    def _block_bytes(self, block_id: int) -> int:
        return self._block_size * self._groups[group_index(self._groups, block_id)].kv_bytes_per_token

    @property
    def members(self) -> dict[tuple[str, int], list[SequenceFigures]]:
        """Figures of the sequences of each request up to the last record read, by request id and number."""
        return {request: [self._figures(row) for row in rows] for request, rows in self._members.items()}

    def _figures(self, row: SequenceRow) -> SequenceFigures:
        _, prompt, tokens = self._of[row.seq_id]
        request, elapsed = row.request, self._clock.elapsed
        queued = elapsed(request.queued)
        return SequenceFigures(
            seq_id=row.seq_id,
            parts=row.parts,
            prompt_token_ids=prompt,
            tokens=tokens,
            status=row.status,
            finish_reason=row.finish_reason,
            submitted_in=row.submitted_in,
            num_cached_tokens=request.num_cached_tokens,
            received_bytes=row.received_bytes,
            num_preemptions=row.num_preemptions,
            num_steps=row.num_steps,
            computed_tokens=row.computed_tokens,
            blocks=row.blocks,
            blocks_peak=row.blocks_peak,
            queue=None if request.scheduled is None else time_in_queue(queued, elapsed(request.scheduled)),
            ttft=None if row.first_token is None else time_to_first_token(queued, elapsed(row.first_token)),
            ttft_steps=row.ttft_steps,
            seconds=None if row.last_token is None else elapsed(row.last_token) - queued,
        )

    def figures(self) -> RunFigures:
        """Return the figures of the run."""
        self._totals.operations = dict(sorted(self._operations.items()))
        self._totals.seconds = self._clock.total
        rows = [row for members in self._members.values() for row in members]
        self._totals.unfinished = sum(1 for row in rows if row.status != "finished")
        return RunFigures(totals=self._totals, series=self._series)

    def read(self, record: StepRecord, num_bytes: int) -> None:
        """Read the next record, of `num_bytes` bytes.

        Raises:
            TraceStateError: the record names an unknown sequence, block or token, or exceeds the copy budget.
        """
        self._budget.read(num_bytes)
        try:
            self._read(record)
        except TooMuchError as error:
            raise TraceStateError(f"record {record.index}: {error}") from error
        except KeyError as error:
            raise TraceStateError(
                f"record {record.index} names a sequence or token that the log does not have: {error}"
            ) from error

    def _read(self, record: StepRecord) -> None:
        totals, memory, account = self._totals, record.memory, self._account
        account.begin(record)
        self.queries = []
        account.read_batch()
        totals.num_records += 1
        totals.num_steps = record.step
        totals.computed_tokens += sum(len(entry.token_ids) for entry in record.batch)
        outputs = RecordOutputs(record.outputs)
        for op, after in zip_longest(record.ops, record.ops[1:]):
            self._operations[str(op.__struct_config__.tag)] += 1
            if isinstance(op, BlockOp) and not (isinstance(op, Allocate) and isinstance(after, Copy)):
                account.hold(op)  # a copy replaces a table entry
            if (handler := account.handlers.get(type(op))) is not None:
                handler(op)
            if isinstance(op, Sample):
                if not account.rows[op.seq_id].is_producer:
                    self._sampled(op, outputs.take(op.seq_id, op.token_id), record)
            else:
                self._count(op)
        held = peak_held(record, memory.blocks_held, lambda _: 1)
        bytes_held = peak_held(record, memory.bytes_held, self._block_bytes)
        totals.blocks_peak = max(totals.blocks_peak, held)
        totals.bytes_peak = max(totals.bytes_peak, bytes_held)
        totals.wasted_peak = max(totals.wasted_peak, memory.bytes_held - memory.bytes_used)
        if record.work is not None:
            work = record.work
            totals.flops += work.flops
            totals.bytes_moved += work.weight_bytes + work.kv_read_bytes + work.kv_write_bytes
        if record.kind == "step":
            self._series.append(
                Point(
                    record=record.index,
                    step=record.step,
                    bytes_held=bytes_held,
                    blocks_held=held,
                    seconds=step_seconds(record.timing),
                )
            )

    def _sampled(self, op: Sample, output: Output, record: StepRecord) -> None:
        self._of[op.seq_id][2].append(
            Token(
                token_id=op.token_id,
                token_bytes=output.token_bytes,
                logprob=output.logprob,
                record=record.index,
                step=record.step,
                chosen=op.sampled_token_id is not None,
            )
        )
        self._totals.output_tokens += 1

    def _count(self, op: Op) -> None:
        totals, rows = self._totals, self._account.rows
        match op:
            case Submit():
                row = rows[op.seq_id]
                if len(row.parts) > 1:
                    self._of[op.seq_id] = self._of[row.parts[-2]]
                    return
                request = row.request.request_id, self._num_requests[row.request.request_id]
                self._num_requests[row.request.request_id] += 1
                self._of[op.seq_id] = request, op.prompt_token_ids, []
                self._members[request] = [row]
                totals.requests += 1
            case Fork():
                request, prompt, tokens = self._of[op.parent_seq_id]
                self._budget.spend(len(prompt) + UNITS_PER_SLOT * len(tokens))
                self._of[op.seq_id] = request, prompt, list(tokens)
                self._members[request].append(rows[op.seq_id])
            case Lookup() if self._account.is_query(op):
                self.queries.append(op)
                totals.asked_tokens += op.num_tokens
                totals.hit_tokens += op.num_hit_tokens
            case Arrive():
                totals.received_bytes += op.num_bytes
            case Copy():
                totals.copies += 1
            case Evict():
                totals.evictions += 1
            case Preempt():
                totals.preemptions += 1
            case SwapOut() | SwapIn():
                totals.swapped_bytes += op.num_bytes
            case _:
                pass
