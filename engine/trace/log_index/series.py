"""Numbers per record, and their minimum and maximum per range of records, so that outliers remain visible."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.trace.busy_time import step_seconds, transfer_span
from engine.trace.geometry import geometry
from engine.trace.operations import Admit, Evict, Lookup, Preempt, Removed
from engine.trace.records import Header, StepRecord
from engine.trace.request_account import LOOKED_UP
from engine.trace.request_parts import RequestParts
from engine.trace.state import State

# Counts are those of the record alone; other numbers are the values after it.
RECORD = np.dtype(
    [
        ("at", "<f8"),  # seconds since the log began
        ("step", "<i4"),
        ("running", "<f4"),  # running sequences
        ("waiting", "<f4"),
        ("usage", "<f4"),  # share of blocks that sequences hold
        ("blocks_held", "<i4"),
        ("blocks_cached", "<i4"),
        ("tokens_held", "<i8"),
        ("asked", "<i4"),  # tokens queried by lookups
        ("hit", "<i4"),  # queried tokens that hit
        ("evictions", "<i4"),  # evicted contents
        ("preemptions", "<i4"),
        ("tokens", "<i4"),  # computed tokens
        ("seconds", "<f4"),  # duration of the step; 0 if the record is not a step
        ("moved_from", "<f8"),  # start of the transfers that ended in the record, seconds since the log began
        ("moved_to", "<f8"),  # their end
    ]
)
DRAWN = tuple(name for name in RECORD.names or () if name not in ("step", "moved_from", "moved_to"))
FROM_EVENTS = ("at", "blocks_cached", "evictions")
GAUGES = ("running", "waiting", "usage")
COUNTERS = ("asked", "hit", "preemptions")
METRICS = {  # a monitored server's metric names
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "usage",
    "vllm:prefix_cache_queries_total": "asked",
    "vllm:prefix_cache_hits_total": "hit",
    "vllm:num_preemptions_total": "preemptions",
    "sglang:num_running_reqs": "running",
    "sglang:num_queue_reqs": "waiting",
    "sglang:token_usage": "usage",
}
Numbers = NDArray[Any]


class SeriesRows:
    """Builder of the RECORD rows. For a monitored server they have its last metrics readings; NaN before the first."""

    def __init__(self, header: Header) -> None:
        self._rows: list[tuple[float, ...]] = []  # rows since the last `take`
        self._observed = header.observed is not None
        self._readings: dict[str, dict[int, float]] = {}  # field of RECORD -> rank -> last reading
        self._parts = RequestParts(len(header.instances) > 1)
        self._admitted: set[int] = set()  # sequences whose requests were admitted
        self._num_blocks = max(1, sum(group.num_blocks for group in geometry(header).groups))

    @property
    def field_names(self) -> list[str]:
        """Fields of RECORD for which the log has values."""
        names = [*FROM_EVENTS, *self._readings] if self._observed else DRAWN
        return [name for name in DRAWN if name in names]

    def add(self, record: StepRecord, state: State) -> None:
        """Read the next record. `state`: state after it."""
        further = self._observed_values(record) if self._observed else self._counted(record, state)
        moved_from, moved_to = transfer_span(record)
        memory, timing = record.memory, record.timing
        values = {
            "at": timing.at,
            "step": record.step,
            "blocks_held": memory.blocks_held,
            "blocks_cached": memory.blocks_cached,
            "tokens_held": memory.tokens_held,
            "usage": memory.blocks_held / self._num_blocks,
            "evictions": sum(type(op) is Evict or (type(op) is Removed and not op.num_left) for op in record.ops),
            "tokens": sum(len(entry.token_ids) for entry in record.batch),
            "seconds": step_seconds(timing),
            "moved_from": moved_from,
            "moved_to": moved_to,
            **further,
        }
        self._rows.append(tuple(values[name] for name in RECORD.names or ()))

    def take(self) -> bytes:
        """Return the rows since the last call."""
        rows, self._rows = np.array(self._rows, dtype=RECORD).tobytes(), []
        return rows

    def _observed_values(self, record: StepRecord) -> dict[str, float]:
        """Return the gauges, summed over ranks (usage: their mean), and the increases of counters."""
        increases = dict.fromkeys(COUNTERS, 0.0)
        for name, value in record.seen.metrics.items() if record.seen is not None else ():
            if (field := METRICS.get(name)) is None:
                continue
            readings = self._readings.setdefault(field, {})
            if field in COUNTERS and record.instance in readings:
                before = readings[record.instance]
                increases[field] += value - before if value >= before else value  # the counter restarted
            readings[record.instance] = value
        gauges = {name: sum(self._readings[name].values()) if name in self._readings else math.nan for name in GAUGES}
        gauges["usage"] /= len(self._readings.get("usage", "?"))
        return {**increases, **gauges}

    def _counted(self, record: StepRecord, state: State) -> dict[str, float]:
        """Return the counts of an engine's own record. Lookups count if `Account.is_query` is true for them."""
        queried = hit = preemptions = 0
        for op in record.ops:
            if self._parts.read(op, record.instance) in self._admitted:
                self._admitted.add(op.seq_id)  # type: ignore[union-attr, arg-type]
            if type(op) is Preempt:
                preemptions += 1
            elif type(op) is Admit:
                self._admitted.add(op.seq_id)
            elif type(op) is Lookup and op.verdict in LOOKED_UP and op.seq_id not in self._admitted:
                queried += op.num_tokens
                hit += op.num_hit_tokens
        waiting = len(state.waiting) + len(state.receiving)
        return {
            "running": len(state.running), "waiting": waiting, "asked": queried, "hit": hit, "preemptions": preemptions,
        }  # fmt: skip


def bins(rows: Numbers, first: int, end: int, count: int) -> dict[str, NDArray[np.float64]]:
    """Aggregate records [first, end) in `count` bins of nearly equal length.

    Returns `edges` (count + 1 record indices), and `<name>_min`, `<name>_max` and `<name>_sum` of each field, with one
    entry per bin; NaN: unknown.

    Raises:
        ValueError: the range is empty or out of bounds.
    """
    if not 0 <= first < end <= len(rows):
        raise ValueError(f"records [{first}, {end}) of {len(rows)}")
    count = max(1, min(count, end - first))
    edges = first + (np.arange(count + 1, dtype=np.int64) * (end - first)) // count
    found: dict[str, NDArray[np.float64]] = {"edges": edges.astype(np.float64)}
    for name in DRAWN:
        values = np.ascontiguousarray(rows[name][first:end]).astype(np.float64)
        starts = edges[:-1] - first
        found[f"{name}_min"] = np.fmin.reduceat(values, starts)  # ignores NaN
        found[f"{name}_max"] = np.fmax.reduceat(values, starts)
        found[f"{name}_sum"] = np.add.reduceat(np.nan_to_num(values), starts)
    return found
