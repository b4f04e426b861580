"""Export to Chrome's trace event format, which Perfetto and chrome://tracing open.

There are three processes: the engine (one track, with steps and their phases), the sequences (one track for each, with
waiting, prefill, decode, preempted), and the counters of the pool. Times are microseconds since the trace began. A
record has the end of its step and the duration of each phase; phases are assumed to follow each other without gaps.
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

import msgspec
from msgspec.structs import asdict

from engine.trace.log import TraceReader
from engine.trace.operations import Admit, Finish, Fork, Preempt, Store, Submit
from engine.trace.records import Header, StepRecord

ENGINE, SEQUENCES, POOL = 1, 2, 3  # process ids
PHASES = ("schedule", "prepare", "forward", "sample")
US = 1e6

Event = dict[str, Any]


def write_perfetto(reader: TraceReader, file: IO[bytes]) -> None:
    """Write the trace as one JSON object, record by record."""
    header = reader.header
    about = {"generator": header.generator, "created": header.created, "model": header.model.name}
    file.write(b'{"displayTimeUnit":"ms","otherData":' + msgspec.json.encode(about) + b',"traceEvents":[\n')
    first = True
    for event in _events(reader):
        file.write(b"" if first else b",\n")
        file.write(msgspec.json.encode(event))
        first = False
    file.write(b"\n]}\n")


def _events(reader: TraceReader) -> Iterator[Event]:
    yield from _names(reader.header)
    sequences = _Sequences()
    end = 0.0
    for index in range(len(reader)):
        record = reader.record(index)
        duration = sum(getattr(record.timing, phase) for phase in PHASES)
        # a step must not begin before the end of the previous one, even if the clock was set back
        start, end = max(end, record.timing.at - duration), max(end, record.timing.at)
        if record.kind == "step":
            yield from _step(record, start, end)
        yield from sequences.events(record, start, end)
        yield from _counters(record, end)
    yield from sequences.unfinished(end)


def _names(header: Header) -> Iterator[Event]:
    for pid, name in ((ENGINE, f"engine: {header.model.name}"), (SEQUENCES, "sequences"), (POOL, "block pool")):
        yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}
        yield {"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}}
    yield {"ph": "M", "pid": ENGINE, "tid": 1, "name": "thread_name", "args": {"name": "steps"}}


def _step(record: StepRecord, start: float, end: float) -> Iterator[Event]:
    counts = {"prefill": 0, "decode": 0}
    for entry in record.batch:
        counts[entry.phase] += len(entry.token_ids)
    args: Event = {
        "record": record.index,
        "sequences": len(record.batch),
        **{f"{k}_tokens": v for k, v in counts.items()},
    }
    if record.work:
        args["flops"] = record.work.flops
    if record.timing.transfer:
        args["transfer_ms"] = record.timing.transfer * 1e3
    yield _slice(f"step {record.step}", ENGINE, 1, start, end, args)
    for phase in PHASES:
        duration = getattr(record.timing, phase)
        if duration:
            yield _slice(phase, ENGINE, 1, start, min(end, start + duration))
            start = min(end, start + duration)


class _Sequences:
    """Events on the tracks of the sequences."""

    def __init__(self) -> None:
        self._since: dict[int, tuple[str, float]] = {}  # seq_id -> "waiting" or "preempted", start of the wait

    def events(self, record: StepRecord, start: float, end: float) -> Iterator[Event]:
        for op in record.ops:
            match op:
                case Submit():
                    yield _thread(op.seq_id, f"{op.request_id} (sequence {op.seq_id})")
                    self._since[op.seq_id] = "waiting", end
                case Fork():
                    yield _thread(op.seq_id, f"{op.request_id} (sequence {op.seq_id}, fork of {op.parent_seq_id})")
                    yield _instant(f"fork of sequence {op.parent_seq_id}", op.seq_id, end)
                case Admit():
                    found = {"num_cached_tokens": op.num_cached_tokens}
                    if op.num_external_tokens:
                        found["num_external_tokens"] = op.num_external_tokens
                    yield from self._end_wait(op.seq_id, start, found)
                case Preempt():
                    lost = {"for_seq_id": op.for_seq_id, "num_recompute_tokens": op.num_recompute_tokens}
                    yield _instant(f"preempt ({op.mode})", op.seq_id, start, lost)
                    self._since[op.seq_id] = "preempted", start
                case Finish():
                    yield from self._end_wait(op.seq_id, end, {})
                    yield _instant(f"finish ({op.reason})", op.seq_id, end)
                case Store():
                    yield _instant(op.shown.format(**asdict(op)), 1, end, {"num_bytes": op.num_bytes}, pid=ENGINE)
                case _ if op.shown and (seq_id := getattr(op, "seq_id", None)) is not None:
                    moved = {"num_bytes": op.moved_bytes} if op.moved_bytes else None
                    yield _instant(op.shown.format(**asdict(op)), seq_id, start, moved)
        for entry in record.batch:
            args: Event = {"start": entry.start, "tokens": len(entry.token_ids), "context_len": entry.context_len}
            chosen = [output.text for output in record.outputs if output.seq_id == entry.seq_id]
            if chosen:
                args["text"] = "".join(chosen)
            yield _slice(entry.phase, SEQUENCES, entry.seq_id, start, end, args)

    def unfinished(self, end: float) -> Iterator[Event]:
        for seq_id in list(self._since):
            yield from self._end_wait(seq_id, end, {})

    def _end_wait(self, seq_id: int, end: float, args: Event) -> Iterator[Event]:
        name, since = self._since.pop(seq_id, ("", 0.0))
        if name:
            yield _slice(name, SEQUENCES, seq_id, since, max(since, end), args)


def _counters(record: StepRecord, end: float) -> Iterator[Event]:
    memory = record.memory
    blocks = {"held": memory.blocks_held, "cached": memory.blocks_cached, "free": memory.blocks_free}
    tokens = {"held": memory.tokens_held, "logical": memory.tokens_logical}
    counted = {"blocks": blocks, "tokens": tokens}
    if record.tiers:
        counted["blocks outside"] = {tier.medium: tier.num_blocks for tier in record.tiers}
    for name, values in counted.items():
        yield {"ph": "C", "pid": POOL, "name": name, "ts": end * US, "args": values}


def _slice(name: str, pid: int, tid: int, start: float, end: float, args: Event | None = None) -> Event:
    event = {"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": start * US, "dur": (end - start) * US}
    return {**event, "args": args} if args else event


def _instant(name: str, tid: int, at: float, args: Event | None = None, pid: int = SEQUENCES) -> Event:
    event = {"ph": "i", "s": "t", "pid": pid, "tid": tid, "name": name, "ts": at * US}
    return {**event, "args": args} if args else event


def _thread(seq_id: int, name: str) -> Event:
    return {"ph": "M", "pid": SEQUENCES, "tid": seq_id, "name": "thread_name", "args": {"name": name}}
