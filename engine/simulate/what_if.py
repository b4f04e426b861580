"""Effect of another pool size: compares the figures of a log with those of two replays.

    python -m engine.simulate.what_if LOG --times 2      prints progress and then the result, as lines of JSON

The replay with the log's pool size is the control: if its decisions equal the log's, all differences of the other
replay are due to the pool size.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from engine.simulate.replay import Replay
from engine.simulate.replay_inputs import Decisions, Inputs, read_decisions, read_inputs
from engine.trace.log import TraceReader
from engine.trace.moved_blocks import MovedBlocks
from engine.trace.operations import (
    Adjust,
    Cache,
    Choose,
    Defer,
    Evict,
    Finish,
    Fork,
    Lookup,
    LookupExternal,
    Op,
    Preempt,
    Rank,
    Sample,
    Store,
    Submit,
)
from engine.trace.request_account import LOOKED_UP

NICE = 10  # niceness: interactive work has priority
PROGRESS_SECONDS = 1.0  # seconds between progress lines
NO_DECISION = (Rank, Choose, Adjust, LookupExternal, Store)  # outputs of the model, commands and external tiers


class Figures(Struct, kw_only=True):
    """Figures of scheduler and cache. Times are numbers of steps."""

    num_blocks: int
    steps: int = 0
    computed_tokens: int = 0
    recomputed_tokens: int = 0  # of these, tokens that the same sequence had computed before
    asked_tokens: int = 0  # tokens looked up in the prefix cache at first admissions
    hit_tokens: int = 0
    preemptions: int = 0
    evictions: int = 0
    evicted_again: int = 0  # blocks recomputed after their content was evicted
    steps_without_room: int = 0  # steps that did not admit the head of the waiting queue because of too few blocks
    first_tokens: int = 0  # number of first tokens
    ttft_steps_p50: float | None = None  # steps from submission to first token; None: no tokens
    ttft_steps_p99: float | None = None
    finished: int = 0  # sequences
    refused: int = 0  # requests that do not fit into the pool


class WhatIf(Struct, kw_only=True):
    """Result of a what-if analysis."""

    num_records: int
    times: float
    log: Figures
    same: Figures  # replay with the log's pool size
    other: Figures  # replay with the other pool size
    # first record in which the replay with the log's pool size decides differently; None: no difference
    differs_in: int | None


class FigureCounter:
    """Computes the figures, record by record."""

    def __init__(self, num_blocks: int) -> None:
        self._found = Figures(num_blocks=num_blocks)
        self._submitted: dict[int, int] = {}  # seq_id -> step of the submission, until the first token
        self._computed: dict[int, int] = {}  # seq_id -> number of positions computed at least once
        self._preempted: set[int] = set()
        self._evicted: set[bytes] = set()
        self._moved = MovedBlocks()
        self._ttft: list[int] = []

    def read(self, record: Decisions) -> None:
        found = self._found
        found.steps = record.step
        computed = self._computed
        for share in record.batch:
            end, before = share.context_len, computed.get(share.seq_id, 0)
            found.computed_tokens += end - share.start
            found.recomputed_tokens += max(0, min(end, before) - share.start)
            computed[share.seq_id] = max(end, before)
        moved = self._moved.read(record.ops, {share.seq_id: share.start for share in record.batch})
        for place, op in enumerate(record.ops):
            if isinstance(op, Sample):
                submitted = self._submitted.pop(op.seq_id, None)
                if submitted is not None:
                    self._ttft.append(record.step - submitted)
            elif isinstance(op, Cache):
                if op.block_hash in self._evicted:
                    self._evicted.discard(op.block_hash)
                    found.evicted_again += place not in moved
            else:
                self._read(op, record)

    def _read(self, op: Op, record: Decisions) -> None:
        found = self._found
        match op:
            case Evict():
                found.evictions += 1
                self._evicted.add(op.block_hash)
            case Submit():
                self._submitted[op.seq_id] = record.step
            case Fork():
                self._computed[op.seq_id] = self._computed.get(op.parent_seq_id, 0)
            case Lookup() if op.verdict in LOOKED_UP and op.seq_id not in self._preempted:
                found.asked_tokens += op.num_tokens
                found.hit_tokens += op.num_hit_tokens
            case Preempt():
                found.preemptions += 1
                self._preempted.add(op.seq_id)
            case Defer() if op.reason in ("no_free_blocks", "fragmented"):
                found.steps_without_room += 1
            case Finish():
                found.finished += 1
                self._computed.pop(op.seq_id, None)
                self._submitted.pop(op.seq_id, None)
                self._preempted.discard(op.seq_id)
            case _:
                pass

    def figures(self, refused: int = 0) -> Figures:
        found = msgspec.structs.replace(self._found, first_tokens=len(self._ttft), refused=refused)
        if self._ttft:
            found.ttft_steps_p50, found.ttft_steps_p99 = np.percentile(self._ttft, [50, 99]).round(2).tolist()
        return found


def what_if(
    log: TraceReader,
    times: float = 2.0,
    on_progress: Callable[[float], None] = lambda share: None,
    num_records: int | None = None,
) -> WhatIf:
    """Replay the first `num_records` records of a log (None: all) with `times` as many blocks.

    `on_progress`: called with the finished share, 0..1.

    Raises:
        ReplayError: the log cannot be replayed, or the pool size is invalid.
        TraceFormatError: a record is damaged.
    """
    count = len(log) if num_records is None else min(num_records, len(log))
    size = int(log.header.engine.get("num_blocks") or 0)
    num_blocks = max(1, round(size * times))
    logged_figures = FigureCounter(size)

    def each(record: Decisions) -> None:
        logged_figures.read(record)
        on_progress(record.index / (3 * count))

    inputs = read_inputs(log, count, each)
    Replay(log.header, inputs, num_blocks)  # validates the pool size before the long replays
    differs_in, same = _replay_unchanged(log, inputs, size, lambda share: on_progress((1 + share) / 3))
    other = _replay_resized(log, inputs, num_blocks, lambda share: on_progress((2 + share) / 3))
    return WhatIf(
        num_records=count, times=times, log=logged_figures.figures(), same=same, other=other, differs_in=differs_in
    )


def _replay_unchanged(
    log: TraceReader, inputs: Inputs, num_blocks: int, on_progress: Callable[[float], None]
) -> tuple[int | None, Figures]:
    """Replay with the log's pool size. Returns the first record that differs and the figures."""
    replay, counter = Replay(log.header, inputs), FigureCounter(num_blocks)
    logged: Iterator[Decisions] | None = read_decisions(log, inputs.num_records)
    differs_in, index = None, 0
    for index, record in enumerate(replay.records()):
        counter.read(record)
        on_progress(min(1.0, index / inputs.num_records))
        if logged is not None:
            expected = next(logged, None)
            if expected is None or not is_same(expected, record):
                differs_in, logged = index, None
    if logged is not None and next(logged, None) is not None:
        differs_in = index + 1
    return differs_in, counter.figures(replay.num_refused)


def _replay_resized(log: TraceReader, inputs: Inputs, num_blocks: int, on_progress: Callable[[float], None]) -> Figures:
    replay, counter = Replay(log.header, inputs, num_blocks), FigureCounter(num_blocks)
    for record in replay.records():
        counter.read(record)
        on_progress(min(1.0, record.step / max(1, inputs.num_steps)))
    return counter.figures(replay.num_refused)


def is_same(logged: Decisions, found: Decisions) -> bool:
    """Return whether the decisions of scheduler and cache are equal in two records."""
    if logged.kind != found.kind or logged.step != found.step or logged.batch != found.batch:
        return False
    decided = iter(found.ops)
    expected = (op for op in logged.ops if not isinstance(op, NO_DECISION))
    return all(a is not None and b is not None and _is_same_decision(a, b) for a, b in zip_longest(expected, decided))


def _is_same_decision(a: Op, b: Op) -> bool:
    if a == b:
        return True
    match a, b:
        case Submit(), Submit():
            return (a.seq_id, a.request_id, a.queue_position) == (b.seq_id, b.request_id, b.queue_position)
        case Fork(), Fork():
            return (a.seq_id, a.parent_seq_id) == (b.seq_id, b.parent_seq_id)
        case Finish(), Finish():
            return (a.seq_id, a.reason) == (b.seq_id, b.reason)
        case Sample(), Sample():
            return (a.seq_id, a.token_id) == (b.seq_id, b.token_id)
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description="Replay a log with another pool size.")
    parser.add_argument("log", type=Path)
    parser.add_argument("--times", type=float, default=2.0, help="size of the other pool, in multiples of the log's")
    parser.add_argument("--records", type=int, help="number of records to replay; default: all")
    arguments = parser.parse_args()
    if hasattr(os, "nice"):
        os.nice(NICE)
    last = time.monotonic()

    def on_progress(share: float) -> None:
        nonlocal last
        if time.monotonic() - last >= PROGRESS_SECONDS:
            last = time.monotonic()
            print(json.dumps({"done": round(share, 3)}), flush=True)

    try:
        with TraceReader(arguments.log, verify=False) as log:
            found = what_if(log, arguments.times, on_progress, arguments.records)
    except (OSError, ValueError) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        sys.exit(1)
    print(json.dumps({"found": msgspec.to_builtins(found)}), flush=True)


if __name__ == "__main__":
    main()
