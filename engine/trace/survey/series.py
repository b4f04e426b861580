"""Numbers of each record, and of stretches of records: the least and the most, so that no bad step is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.trace.events import Evict, Lookup, Preempt, Removed
from engine.trace.records import StepRecord
from engine.trace.state import State

# of one record; counts are of this record alone, the others are as they are after it
RECORD = np.dtype(
    [
        ("at", "<f8"),  # seconds since the log began
        ("step", "<i4"),
        ("running", "<i4"),  # sequences
        ("waiting", "<i4"),
        ("blocks_held", "<i4"),
        ("blocks_cached", "<i4"),
        ("tokens_held", "<i8"),
        ("asked", "<i4"),  # tokens that lookups asked for
        ("hit", "<i4"),  # of these
        ("evictions", "<i4"),  # contents that the cache lost
        ("preemptions", "<i4"),
        ("tokens", "<i4"),  # computed
        ("seconds", "<f4"),  # of the step; 0 of a record that is none
    ]
)
DRAWN = tuple(name for name in RECORD.names or () if name != "step")
Numbers = NDArray[Any]


def numbers(record: StepRecord, state: State) -> tuple[float, ...]:
    """A row of RECORD; `state` is the one after it."""
    asked = hit = evictions = preemptions = 0
    for op in record.ops:
        if type(op) is Evict or (type(op) is Removed and not op.num_left):
            evictions += 1
        elif type(op) is Preempt:
            preemptions += 1
        elif type(op) is Lookup and op.verdict in ("hit", "miss", "too_short"):
            asked += op.num_tokens
            hit += op.num_hit_tokens
    timing, memory = record.timing, record.memory
    return (
        timing.at,
        record.step,
        len(state.running),
        len(state.waiting) + len(state.receiving),
        memory.blocks_held,
        memory.blocks_cached,
        memory.tokens_held,
        asked,
        hit,
        evictions,
        preemptions,
        sum(len(entry.token_ids) for entry in record.batch),
        timing.schedule + timing.prepare + timing.forward + timing.sample,
    )


def bins(rows: Numbers, first: int, end: int, count: int) -> dict[str, NDArray[np.float64]]:
    """Records [first, end) in `count` stretches of nearly equal length: `edges` (count + 1 record indices), and of each
    number `<name>_min`, `<name>_max` and `<name>_sum`, one entry a stretch.

    Raises:
        ValueError: there are no such records.
    """
    if not 0 <= first < end <= len(rows):
        raise ValueError(f"records [{first}, {end}) of {len(rows)}")
    count = max(1, min(count, end - first))
    edges = first + (np.arange(count + 1, dtype=np.int64) * (end - first)) // count
    found: dict[str, NDArray[np.float64]] = {"edges": edges.astype(np.float64)}
    for name in DRAWN:
        values = np.ascontiguousarray(rows[name][first:end]).astype(np.float64)
        starts = edges[:-1] - first
        found[f"{name}_min"] = np.minimum.reduceat(values, starts)
        found[f"{name}_max"] = np.maximum.reduceat(values, starts)
        found[f"{name}_sum"] = np.add.reduceat(values, starts)
    return found
