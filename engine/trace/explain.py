"""Analysis of a log: memory usage, slow steps, and the timeline of each request with the reasons of its events.

Operations (`lookup`, `defer`, `preempt`, ...) record their reasons. This module adds figures that span several records:
how long a sequence waited, and how many tokens were recomputed after a preemption.
"""

from __future__ import annotations

from collections import Counter
from statistics import median

from msgspec import Struct, field

from engine.trace.busy_time import step_seconds
from engine.trace.figures import RunReading, SequenceFigures, Totals
from engine.trace.geometry import TraceStateError
from engine.trace.goodput import SLO, Goodput, Output, goodput
from engine.trace.log import TraceReader
from engine.trace.operations import (
    Adjust,
    Admit,
    Arrive,
    Await,
    Defer,
    DeferReason,
    Expire,
    Finish,
    Fork,
    Hold,
    Lookup,
    LookupExternal,
    Lost,
    Preempt,
    Send,
    Submit,
    TransferFailed,
    Verify,
)
from engine.trace.records import Memory, StepRecord, Timing
from engine.trace.state import State, held_blocks

NUM_SLOW = 5  # slowest steps in an overview
TimelineOp = (
    Submit | Fork | Lookup | LookupExternal | Await | Arrive | TransferFailed | Admit | Preempt | Adjust | Finish
    | Hold | Send | Expire | Lost
)  # fmt: skip
SLOW = 2  # a step is slow if it takes longer than this multiple of the median step


class Holder(Struct, frozen=True, kw_only=True):
    """Pool usage of a sequence."""

    seq_id: int
    request_id: str
    blocks: int
    shared: int  # number of these blocks that are also in another sequence's table


class Fullest(Struct, frozen=True, kw_only=True):
    """The pool after the first record with the maximum number of held blocks."""

    record: int
    step: int
    memory: Memory
    holders: list[Holder]  # most blocks first


class SlowStep(Struct, frozen=True, kw_only=True):
    """Step among the slowest of the run."""

    record: int
    step: int
    seconds: float
    timing: Timing
    prefill_tokens: int
    decode_tokens: int


class SequenceOverview(Struct, frozen=True, kw_only=True):
    """Figures of a sequence."""

    request_id: str
    figures: SequenceFigures
    recomputed_tokens: int  # tokens computed again after preemptions
    tpot: float | None  # engine seconds per output token, see SequenceFigures
    slow_steps: int  # number of slow steps that computed tokens of the sequence


class Drafts(Struct, kw_only=True):
    """Totals of speculative decoding. A pass is a step of a sequence that verified drafts."""

    passes: int = 0
    drafted: int = 0
    accepted: int = 0
    tokens: int = 0  # sampled in these passes: accepted drafts, and the token after them

    def read(self, record: StepRecord) -> None:
        """Add a record."""
        verified = {op.seq_id: op for op in record.ops if isinstance(op, Verify)}
        self.passes += len(verified)
        self.drafted += sum(op.num_drafted for op in verified.values())
        self.accepted += sum(op.num_accepted for op in verified.values())
        self.tokens += sum(output.seq_id in verified for output in record.outputs)


class Overview(Struct, frozen=True, kw_only=True):
    """Overview of a run."""

    totals: Totals
    drafts: Drafts
    sequences: list[SequenceOverview]
    fullest: Fullest | None  # None: the log has no records
    slowest: list[SlowStep]  # longest first
    num_slow: int  # number of steps that took more than SLOW times the median
    median_seconds: float  # median duration of all steps


class Wait(Struct, kw_only=True):
    """Steps that a sequence spent in the waiting queue, until its admission, its abort or the end of the log."""

    since: int  # record index
    steps: int = 0
    behind: int = 0  # steps in which the scheduler did not reach it
    deferred: dict[DeferReason, int] = {}  # steps in which it was at the head and could not be admitted, by reason
    last: Defer | None = None


class TimelineEvent(Struct, frozen=True, kw_only=True):
    """Event of a sequence. `wait`: the wait that the event ends."""

    record: int
    step: int
    op: TimelineOp
    wait: Wait | None = None
    computed_again: int = 0  # tokens to recompute, for an admission after a preemption


class Timeline(Struct, kw_only=True):
    """Events of a sequence from its submission to its end."""

    seq_id: int
    request_id: str
    events: list[TimelineEvent] = field(name="moments")  # the name in `--json`
    waiting: Wait | None = None  # set if the sequence waits at the end of the log


def overview(log: TraceReader) -> Overview:
    """Read the whole log and return its overview.

    Raises:
        TraceFormatError: a record is damaged.
        TraceStateError: a record contradicts the log before it.
    """
    reading = RunReading(log.header)
    timelines, drafts = _TimelineBuilder(), Drafts()
    steps: list[SlowStep] = []
    fullest, max_held = -1, -1
    for index in range(len(log)):
        record = log.record(index)
        if record.index != index:  # slow steps are read again by index
            raise TraceStateError(f"the index of record {index} is {record.index}")
        reading.read(record, log.num_record_bytes(index))
        timelines.read(record)
        drafts.read(record)
        if record.memory.blocks_held > max_held:
            fullest, max_held = index, record.memory.blocks_held
        if record.kind == "step":
            steps.append(_slow_step(record))
    recomputed = {one.seq_id: sum(event.computed_again for event in one.events) for one in timelines.all()}
    median_seconds = median(step.seconds for step in steps) if steps else 0.0
    slow = [step.record for step in steps if step.seconds > SLOW * median_seconds]
    slow_steps = Counter(entry.seq_id for index in slow for entry in log.record(index).batch)
    return Overview(
        totals=reading.figures().totals,
        drafts=drafts,
        sequences=[
            SequenceOverview(
                request_id=request_id,
                figures=member,
                recomputed_tokens=sum(recomputed.get(part, 0) for part in member.parts),
                tpot=member.tpot,
                slow_steps=sum(slow_steps[part] for part in member.parts),
            )
            for (request_id, _), members in reading.members.items()
            for member in members
        ],
        fullest=_fullest(log.record(fullest), log.state_at(fullest)) if fullest >= 0 else None,
        slowest=sorted(steps, key=lambda step: -step.seconds)[:NUM_SLOW],
        num_slow=len(slow),
        median_seconds=median_seconds,
    )


def goodput_of(found: Overview, slo: SLO) -> Goodput:
    """Return the goodput under `slo`. Dropped beams do not count as outputs of their request."""
    outputs = [
        Output(
            request_id=sequence.request_id,
            is_finished=sequence.figures.finish_reason in ("stop", "length"),
            ttft=sequence.figures.ttft,
            tpot=sequence.tpot,
        )
        for sequence in found.sequences
        if sequence.figures.finish_reason != "dropped"
    ]
    return goodput(outputs, found.totals.seconds, slo)


def timelines(log: TraceReader) -> list[Timeline]:
    """Return the timeline of every sequence, in order of submission.

    Raises:
        TraceFormatError: a record is damaged.
    """
    found = _TimelineBuilder()
    for index in range(len(log)):
        found.read(log.record(index))
    return found.all()


def _slow_step(record: StepRecord) -> SlowStep:
    tokens: Counter[str] = Counter()
    for entry in record.batch:
        tokens[entry.phase] += len(entry.token_ids)
    return SlowStep(
        record=record.index,
        step=record.step,
        seconds=step_seconds(record.timing),
        timing=record.timing,
        prefill_tokens=tokens["prefill"],
        decode_tokens=tokens["decode"],
    )


def _fullest(record: StepRecord, state: State) -> Fullest:
    tables = {seq_id: held_blocks(sequence) for seq_id, sequence in state.sequences.items()}
    owners = Counter(block for blocks in tables.values() for block in set(blocks))
    holders = [
        Holder(
            seq_id=seq_id,
            request_id=state.sequences[seq_id].request_id,
            blocks=len(blocks),
            shared=sum(1 for block in blocks if owners[block] > 1),
        )
        for seq_id, blocks in tables.items()
        if blocks
    ]
    holders.sort(key=lambda holder: (-holder.blocks, holder.seq_id))
    return Fullest(record=record.index, step=record.step, memory=record.memory, holders=holders)


class _TimelineBuilder:
    """Builds the timelines record by record. `static/js/core/timeline.js` mirrors it.

    The steps of a wait are counted when it ends, as the difference of two step counters. So the cost of a step does not
    depend on the number of waiting sequences.
    """

    def __init__(self) -> None:
        self._timelines: dict[int, Timeline] = {}  # by seq_id
        self._lost: dict[int, int] = {}  # seq_id -> computed tokens when it was preempted
        self._steps = Counter[int]()  # instance -> steps read so far
        self._instances: dict[int, int] = {}  # seq_id -> instance
        self._ended: set[int] = set()  # seq_ids
        self._waits_from: dict[int, int] = {}  # seq_id -> its instance's steps when the wait began

    def all(self) -> list[Timeline]:
        """Return the timelines up to the last record read."""
        for timeline in self._timelines.values():
            if timeline.waiting:
                self._count_steps(timeline, timeline.waiting)
        return list(self._timelines.values())

    def read(self, record: StepRecord) -> None:
        """Read the next record."""
        for op in record.ops:
            match op:
                case Submit():
                    self._instances[op.seq_id] = record.instance
                    timeline = Timeline(seq_id=op.seq_id, request_id=op.request_id, events=[])
                    self._timelines[op.seq_id] = timeline
                    self._add(op.seq_id, record, op)
                    self._begin_waiting(timeline, record)
                case Fork():
                    self._instances[op.seq_id] = record.instance
                    self._timelines[op.seq_id] = Timeline(seq_id=op.seq_id, request_id=op.request_id, events=[])
                    self._add(op.seq_id, record, op)
                case Lookup() | LookupExternal() | Await() | Hold() | Send() | Expire():
                    self._add(op.seq_id, record, op)
                case Finish():
                    self._ended.add(op.seq_id)
                    self._add(op.seq_id, record, op)
                case Arrive() | TransferFailed():
                    self._add(op.seq_id, record, op)
                    if received := self._timelines.get(op.seq_id):
                        self._begin_waiting(received, record)
                case Lost():
                    for seq_id in [i for i, instance in self._instances.items() if instance == record.instance]:
                        if seq_id not in self._ended:
                            self._ended.add(seq_id)
                            self._add(seq_id, record, op)
                case Adjust():
                    for seq_id in op.seq_ids:
                        self._add(seq_id, record, op)
                case Defer():
                    self._defer(op, record)
                case Admit():
                    lost = self._lost.pop(op.seq_id, 0)
                    restored = op.num_cached_tokens + op.num_swapped_tokens + op.num_external_tokens
                    self._add(op.seq_id, record, op, max(0, lost - restored))
                case Preempt():
                    self._add(op.seq_id, record, op)
                    self._lost[op.seq_id] = op.num_computed_tokens
                    if preempted := self._timelines.get(op.seq_id):
                        self._begin_waiting(preempted, record)
                case _:
                    pass
        self._steps[record.instance] += record.kind == "step"

    def _begin_waiting(self, timeline: Timeline, record: StepRecord) -> None:
        timeline.waiting = Wait(since=record.index)
        self._waits_from[timeline.seq_id] = self._steps[record.instance] + (record.kind == "step")

    def _count_steps(self, timeline: Timeline, wait: Wait) -> None:
        """Set the step counts of a wait that lasts until the last record read."""
        steps = self._steps[self._instances[timeline.seq_id]]
        wait.steps = max(0, steps - self._waits_from[timeline.seq_id])
        wait.behind = max(0, wait.steps - sum(wait.deferred.values()))

    def _add(self, seq_id: int, record: StepRecord, op: TimelineOp, computed_again: int = 0) -> None:
        timeline = self._timelines.get(seq_id)
        if timeline is None:
            return
        wait = None
        if isinstance(op, Admit | Finish | Await | Lost):
            wait, timeline.waiting = timeline.waiting, None
            if wait:
                self._count_steps(timeline, wait)
        timeline.events.append(
            TimelineEvent(record=record.index, step=record.step, op=op, wait=wait, computed_again=computed_again)
        )

    def _defer(self, op: Defer, record: StepRecord) -> None:
        timeline = self._timelines.get(op.seq_id)
        if timeline and timeline.waiting and timeline.waiting.since < record.index:  # not in the step that preempted it
            wait = timeline.waiting
            wait.deferred[op.reason] = wait.deferred.get(op.reason, 0) + 1
            wait.last = op
