"""Analysis of a run: where the memory goes, which steps are slow, what happens to a request and why.

Pure: a log in, findings out. Operations (`lookup`, `defer`, `preempt`, ...) record their reasons; this module combines
several records: how long a sequence waited, how much was recomputed after a preemption.
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

NUM_SLOW = 5  # steps that an overview shows
TimelineOp = (
    Submit | Fork | Lookup | LookupExternal | Await | Arrive | TransferFailed | Admit | Preempt | Adjust | Finish
    | Hold | Send | Expire | Lost
)  # fmt: skip
SLOW = 2  # times the run's median step; longer steps are slow


class Holder(Struct, frozen=True, kw_only=True):
    """Pool usage of a sequence."""

    seq_id: int
    request_id: str
    blocks: int
    shared: int  # of these, also in another sequence's table


class Fullest(Struct, frozen=True, kw_only=True):
    """The pool after the record with the most held blocks, the first such record."""

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


class Named(Struct, frozen=True, kw_only=True):
    """Sequence and its request."""

    request_id: str
    figures: SequenceFigures
    recomputed_tokens: int  # computed again after preemptions
    tpot: float | None  # engine seconds per output token, see SequenceFigures
    slow_steps: int  # slow steps that computed tokens of it


class Drafts(Struct, kw_only=True):
    """Speculative decoding: passes that verified drafts, and their outcome."""

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
    sequences: list[Named]
    fullest: Fullest | None  # None: a log without records
    slowest: list[SlowStep]  # longest first
    num_slow: int  # steps that took more than SLOW times the median
    median_seconds: float  # of all steps


class Wait(Struct, kw_only=True):
    """Steps that a sequence spent in the waiting queue, until its admission, its abort or the end of the log."""

    since: int  # record
    steps: int = 0
    behind: int = 0  # of these, steps in which the scheduler stopped before it
    deferred: dict[DeferReason, int] = {}  # steps in which it was at the head and could not be admitted, by reason
    last: Defer | None = None


class TimelineEvent(Struct, frozen=True, kw_only=True):
    """Event of a sequence. `wait`: of an admission or an end, the wait before it."""

    record: int
    step: int
    op: TimelineOp
    wait: Wait | None = None
    computed_again: int = 0  # of an admission after a preemption: tokens to recompute


class Timeline(Struct, kw_only=True):
    """Events of a sequence from its submission to its end."""

    seq_id: int
    request_id: str
    events: list[TimelineEvent] = field(name="moments")  # the name in `--json`
    waiting: Wait | None = None  # set if it waits when the log ends


def overview(log: TraceReader) -> Overview:
    """Read the whole log.

    Raises:
        TraceFormatError: a damaged record.
        TraceStateError: a record that contradicts the log before it.
    """
    reading = RunReading(log.header)
    timelines, drafts = _Stories(), Drafts()
    steps: list[SlowStep] = []
    fullest, most = -1, -1
    for index in range(len(log)):
        record = log.record(index)
        if record.index != index:  # slow steps are read again by index
            raise TraceStateError(f"record {record.index} is in the place of record {index}")
        reading.read(record, log.num_record_bytes(index))
        timelines.read(record)
        drafts.read(record)
        if record.memory.blocks_held > most:
            fullest, most = index, record.memory.blocks_held
        if record.kind == "step":
            steps.append(_timed(record))
    again = {story.seq_id: sum(event.computed_again for event in story.events) for story in timelines.all()}
    middle = median(step.seconds for step in steps) if steps else 0.0
    slow = [step.record for step in steps if step.seconds > SLOW * middle]
    slow_steps = Counter(entry.seq_id for index in slow for entry in log.record(index).batch)
    return Overview(
        totals=reading.figures().totals,
        drafts=drafts,
        sequences=[
            Named(
                request_id=request_id,
                figures=member,
                recomputed_tokens=sum(again.get(part, 0) for part in member.parts),
                tpot=member.tpot,
                slow_steps=sum(slow_steps[part] for part in member.parts),
            )
            for (request_id, _), members in reading.members.items()
            for member in members
        ],
        fullest=_fullest(log.record(fullest), log.state_at(fullest)) if fullest >= 0 else None,
        slowest=sorted(steps, key=lambda step: -step.seconds)[:NUM_SLOW],
        num_slow=len(slow),
        median_seconds=middle,
    )


def goodput_of(found: Overview, slo: SLO) -> Goodput:
    """Return the goodput under `slo`; a `dropped` beam is no output of its request."""
    outputs = [
        Output(
            request_id=named.request_id,
            is_finished=named.figures.finish_reason in ("stop", "length"),
            ttft=named.figures.ttft,
            tpot=named.tpot,
        )
        for named in found.sequences
        if named.figures.finish_reason != "dropped"
    ]
    return goodput(outputs, found.totals.seconds, slo)


def timelines(log: TraceReader) -> list[Timeline]:
    """Return the timeline of every sequence, in order of submission.

    Raises:
        TraceFormatError: a damaged record.
    """
    found = _Stories()
    for index in range(len(log)):
        found.read(log.record(index))
    return found.all()


def _timed(record: StepRecord) -> SlowStep:
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


class _Stories:
    """Builds the timelines record by record; `static/js/core/timeline.js` mirrors it.

    A wait is counted when it ends, from the number of steps read meanwhile, so a step costs the same with many waiting
    sequences.
    """

    def __init__(self) -> None:
        self._stories: dict[int, Timeline] = {}
        self._lost: dict[int, int] = {}  # by sequence: computed tokens when it was preempted
        self._steps = Counter[int]()  # by instance: steps read so far
        self._instances: dict[int, int] = {}  # by sequence
        self._ended: set[int] = set()  # sequences
        self._waits_from: dict[int, int] = {}  # by waiting sequence: its instance's steps when the wait began

    def all(self) -> list[Timeline]:
        """Return the timelines up to the last record read."""
        for story in self._stories.values():
            if story.waiting:
                self._count(story, story.waiting)
        return list(self._stories.values())

    def read(self, record: StepRecord) -> None:
        """Read the next record."""
        for op in record.ops:
            match op:
                case Submit():
                    self._instances[op.seq_id] = record.instance
                    story = Timeline(seq_id=op.seq_id, request_id=op.request_id, events=[])
                    self._stories[op.seq_id] = story
                    self._tell(op.seq_id, record, op)
                    self._begin_waiting(story, record)
                case Fork():
                    self._instances[op.seq_id] = record.instance
                    self._stories[op.seq_id] = Timeline(seq_id=op.seq_id, request_id=op.request_id, events=[])
                    self._tell(op.seq_id, record, op)
                case Lookup() | LookupExternal() | Await() | Hold() | Send() | Expire():
                    self._tell(op.seq_id, record, op)
                case Finish():
                    self._ended.add(op.seq_id)
                    self._tell(op.seq_id, record, op)
                case Arrive() | TransferFailed():
                    self._tell(op.seq_id, record, op)
                    if came := self._stories.get(op.seq_id):
                        self._begin_waiting(came, record)
                case Lost():
                    for seq_id in [i for i, instance in self._instances.items() if instance == record.instance]:
                        if seq_id not in self._ended:
                            self._ended.add(seq_id)
                            self._tell(seq_id, record, op)
                case Adjust():
                    for seq_id in op.seq_ids:
                        self._tell(seq_id, record, op)
                case Defer():
                    self._defer(op, record)
                case Admit():
                    lost = self._lost.pop(op.seq_id, 0)
                    there = op.num_cached_tokens + op.num_swapped_tokens + op.num_external_tokens
                    self._tell(op.seq_id, record, op, max(0, lost - there))
                case Preempt():
                    self._tell(op.seq_id, record, op)
                    self._lost[op.seq_id] = op.num_computed_tokens
                    if preempted := self._stories.get(op.seq_id):
                        self._begin_waiting(preempted, record)
                case _:
                    pass
        self._steps[record.instance] += record.kind == "step"

    def _begin_waiting(self, story: Timeline, record: StepRecord) -> None:
        story.waiting = Wait(since=record.index)
        self._waits_from[story.seq_id] = self._steps[record.instance] + (record.kind == "step")

    def _count(self, story: Timeline, wait: Wait) -> None:
        """Count the steps of a wait that lasts until now."""
        steps = self._steps[self._instances[story.seq_id]]
        wait.steps = max(0, steps - self._waits_from[story.seq_id])
        wait.behind = max(0, wait.steps - sum(wait.deferred.values()))

    def _tell(self, seq_id: int, record: StepRecord, op: TimelineOp, computed_again: int = 0) -> None:
        story = self._stories.get(seq_id)
        if story is None:
            return
        wait = None
        if isinstance(op, Admit | Finish | Await | Lost):
            wait, story.waiting = story.waiting, None
            if wait:
                self._count(story, wait)
        story.events.append(
            TimelineEvent(record=record.index, step=record.step, op=op, wait=wait, computed_again=computed_again)
        )

    def _defer(self, op: Defer, record: StepRecord) -> None:
        story = self._stories.get(op.seq_id)
        if story and story.waiting and story.waiting.since < record.index:  # exclude the step that preempted it
            wait = story.waiting
            wait.deferred[op.reason] = wait.deferred.get(op.reason, 0) + 1
            wait.last = op
