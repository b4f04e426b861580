"""Figures of a log's requests by class: client, length, priority or prompt prefix.

Seconds are engine time, as in `engine.trace.figures`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from engine.trace.busy_time import BusyTime
from engine.trace.log_index.class_rows import NONE, ClassColumns
from engine.trace.log_index.log_index import LogIndex
from engine.trace.records import Header
from engine.trace.request_account import time_per_output_token, time_to_first_token

By = Literal["all", "client", "priority", "prompt", "output", "prefix"]
BYS: tuple[By, ...] = get_args(By)
LENGTHS = (0, 1, 16, 64, 256, 1024, 4096, 16_384)  # first length of each class
MAX_GROUPS = 24  # maximum number of classes in a reply


class ClassFigures(Struct, kw_only=True):
    """Figures of a class of requests. None: no request has the value."""

    requests: int
    sequences: int
    finished: int  # number of sequences that ended without an abort
    aborted: int
    prompt_tokens: int
    output_tokens: int
    cached_share: float | None = None  # prefix-cache hits at admission / prompt tokens of admitted requests
    preemptions: int
    ttft_p50: float | None = None  # seconds
    ttft_p99: float | None = None
    tpot_p50: float | None = None
    tpot_p99: float | None = None


class _Rows(NamedTuple):
    """Columns with an entry per sequence. The parts of a request on several instances have one entry."""

    names: list[str | None]  # name of the class; None: unknown
    is_request: NDArray[np.bool_]  # False for a fork
    prompt: NDArray[np.int64]
    output: NDArray[np.int64]
    cached: NDArray[np.int64]  # NONE: never admitted
    preemptions: NDArray[np.int64]
    reasons: list[str]
    ttft: NDArray[np.float64]  # NaN: no token
    tpot: NDArray[np.float64]


def classes(log_index: LogIndex, header: Header, by: By) -> dict[str | None, ClassFigures]:
    """Return the figures of each class that has a request. Key None: the class is unknown."""
    rows = _rows(log_index, header, by)
    members: dict[str | None, list[int]] = {}
    for index, name in enumerate(rows.names):
        members.setdefault(name, []).append(index)
    return {name: _figures(rows, np.array(found)) for name, found in members.items()}


def _rows(log_index: LogIndex, header: Header, by: By) -> _Rows:
    sequences, class_columns = log_index.index.sequences, log_index.index.classes
    count = len(sequences.seq_id)
    root = roots_of(class_columns)
    continued = {before for before in class_columns.before if before != NONE}
    last_parts = [row for row in range(count) if row not in continued]
    roots = [root[row] for row in last_parts]
    preempted = np.zeros(count, np.int64)
    np.add.at(preempted, root, np.array(class_columns.num_preemptions, np.int64))
    column = _column
    output, is_request = (
        column(sequences.num_output_tokens, last_parts),
        column(class_columns.parent, last_parts) == NONE,
    )
    ttft, tpot = latencies(log_index, header, last_parts, roots)
    cached = np.where(column(sequences.admitted_in, roots) == NONE, NONE, column(sequences.num_cached_tokens, roots))
    prompt = column(sequences.num_prompt_tokens, roots)
    name_of: dict[By, Callable[[int], str | None]] = {
        "all": lambda i: "all",
        "client": lambda i: (
            None if class_columns.client[roots[i]] == NONE else class_columns.clients[class_columns.client[roots[i]]]
        ),
        "priority": lambda i: str(class_columns.priority[roots[i]]),
        "prompt": lambda i: length_class(int(prompt[i])),
        "output": lambda i: length_class(int(output[i])),
        "prefix": lambda i: _prefix_name(class_columns, roots[i]),
    }
    names = [name_of[by](i) for i in range(len(last_parts))]
    reasons = [sequences.finish_reason[row] for row in last_parts]
    return _Rows(names, is_request, prompt, output, cached, preempted[roots], reasons, ttft, tpot)


def roots_of(columns: ClassColumns) -> list[int]:
    """Return, for each sequence, the row of its request's first part."""
    root = list(range(len(columns.before)))
    for row, before in enumerate(columns.before):
        if before != NONE:
            root[row] = root[before]
    return root


def latencies(
    log_index: LogIndex, header: Header, rows: list[int], roots: list[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return TTFT and TPOT of the sequences `rows`, in seconds; NaN if undefined.

    A fork has no TTFT. `roots`: for each of the sequences, the row of its request's first part.
    """
    sequences, class_columns = log_index.index.sequences, log_index.index.classes
    now = _clock(log_index, header).tolist()
    ttft, tpot = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    for index, (row, root) in enumerate(zip(rows, roots, strict=True)):
        if (first := sequences.first_token_in[row]) == NONE:
            continue
        if class_columns.parent[row] == NONE:
            ttft[index] = time_to_first_token(now[sequences.submitted_in[root]], now[first])
        found = time_per_output_token(
            now[first], now[class_columns.last_token_in[row]], sequences.num_output_tokens[row]
        )
        tpot[index] = np.nan if found is None else found
    return ttft, tpot


def _clock(log_index: LogIndex, header: Header) -> NDArray[np.float64]:
    """Return the engine time at the end of each record, in seconds."""
    at, seconds = log_index.series["at"].astype(np.float64), log_index.series["seconds"].astype(np.float64)
    if len(header.instances) > 1:
        busy = BusyTime()
        transfers = (log_index.series[name].tolist() for name in ("moved_from", "moved_to"))
        for began, ended, moved_from, moved_to in zip((at - seconds).tolist(), at.tolist(), *transfers, strict=True):
            busy.add(began, ended)
            busy.add(moved_from, moved_to)
        return np.fromiter(map(busy.before, at.tolist()), np.float64, len(at))
    return np.cumsum(seconds)


def _column(values: list[int], rows: list[int]) -> NDArray[np.int64]:
    return np.array(values, np.int64)[rows] if rows else np.empty(0, np.int64)


def length_class(length: int) -> str:
    """Return the name of the class of a number of tokens, such as `256-1023`."""
    index = int(np.searchsorted(LENGTHS, length, side="right")) - 1
    low = LENGTHS[index]
    if index + 1 == len(LENGTHS):
        return f"{low}+"
    high = LENGTHS[index + 1] - 1
    return str(low) if low == high else f"{low}-{high}"


def _prefix_name(class_columns: ClassColumns, row: int) -> str | None:
    if class_columns.texts_unknown:
        return None
    index = class_columns.prefix[row]
    return "short" if index == NONE else class_columns.prefixes[index].hex()


def _figures(rows: _Rows, members: NDArray[np.int64]) -> ClassFigures:
    reasons = [rows.reasons[member] for member in members]
    admitted = members[(rows.cached[members] != NONE) & rows.is_request[members]]
    num_prompt_tokens = int(rows.prompt[admitted].sum())
    found = ClassFigures(
        requests=int(rows.is_request[members].sum()),
        sequences=len(members),
        finished=sum(reason in ("stop", "length") for reason in reasons),
        aborted=reasons.count("abort"),
        prompt_tokens=int(rows.prompt[members][rows.is_request[members]].sum()),
        output_tokens=int(rows.output[members].sum()),
        cached_share=float(rows.cached[admitted].sum()) / num_prompt_tokens if num_prompt_tokens else None,
        preemptions=int(rows.preemptions[members].sum()),
    )
    for name, values in (("ttft", rows.ttft[members]), ("tpot", rows.tpot[members])):
        known = values[~np.isnan(values)]
        if len(known):
            for share in (50, 99):
                setattr(found, f"{name}_p{share}", float(np.percentile(known, share)))
    return found


class ClassPair(Struct, frozen=True, kw_only=True):
    """Class in two runs. None: that run has no request of the class."""

    name: str | None
    a: ClassFigures | None
    b: ClassFigures | None


def pair_classes(
    a: dict[str | None, ClassFigures], b: dict[str | None, ClassFigures] | None, by: By
) -> tuple[list[ClassPair], int]:
    """Return up to MAX_GROUPS classes of two runs, paired, and the number of omitted classes.

    Lengths and priorities are in ascending order, others in descending order of the number of requests.
    """
    other = b or {}
    names = list(dict.fromkeys([*a, *other]))

    def num_requests(name: str | None) -> int:
        return sum(side[name].requests for side in (a, other) if name in side)

    if by in ("prompt", "output", "priority"):
        names.sort(key=lambda name: int(str(name)) if by == "priority" else int(str(name).split("-")[0].rstrip("+")))
    else:
        names.sort(key=lambda name: (-num_requests(name), str(name)))
    shown = names[:MAX_GROUPS]
    return [ClassPair(name=name, a=a.get(name), b=other.get(name)) for name in shown], len(names) - len(shown)
