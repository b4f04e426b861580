"""Sequences as a table of columns, with latencies."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import asdict
from numpy.typing import NDArray

from engine.trace.log_index.class_rows import NONE
from engine.trace.log_index.classes import latencies, roots_of
from engine.trace.log_index.log_index import LogIndex
from engine.trace.records import Header


def sequence_table(log_index: LogIndex, header: Header) -> dict[str, list[Any]]:
    """Return `SequenceColumns`, `SpanColumns` with the prefix `span_`, and per sequence `client`, `ttft`, `tpot` and
    `missed` (seconds from the eviction of the first missed block to the lookup). None: undefined or unknown.
    """
    sequences, classes = log_index.index.sequences, log_index.index.classes
    rows = list(range(len(sequences.seq_id)))
    ttft, tpot = latencies(log_index, header, rows, roots_of(classes))
    at = log_index.series["at"]
    looked, lost = np.array(sequences.looked_in, np.int64), np.array(sequences.lost_in, np.int64)
    missed = np.where(looked == NONE, np.nan, at[looked] - at[lost]) if rows else np.empty(0)
    return {
        **asdict(sequences),
        **{f"span_{name}": column for name, column in asdict(log_index.index.spans).items()},
        "client": [None if client == NONE else classes.clients[client] for client in classes.client],
        "ttft": _seconds(ttft),
        "tpot": _seconds(tpot),
        "missed": _seconds(missed),
    }


def _seconds(values: NDArray[np.float64]) -> list[float | None]:
    return [None if np.isnan(value) else value for value in values.tolist()]
