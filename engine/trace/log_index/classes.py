"""Requests of a log by class: client, length, priority and prompt prefix.

Seconds are engine time, as in `engine.trace.figures`; with several instances those of their common clock.
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
MAX_GROUPS = 24  # classes shown


class ClassFigures(Struct, kw_only=True):
    """Figures of a class of requests. None: no request has the value."""

    requests: int
    sequences: int  # a request may have several
    finished: int  # sequences that ended without an abort
    aborted: int
    prompt_tokens: int
    output_tokens: int
    cached_share: float | None = None  # prefix-cache hits at admission / prompt tokens admitted
    preemptions: int
    ttft_p50: float | None = None  # seconds
    ttft_p99: float | None = None
    tpot_p50: float | None = None
    tpot_p99: float | None = None


class _Rows(NamedTuple):
    """Columns with an entry per sequence; of several parts the last, including the earlier ones."""

    names: list[str | None]  # class; None: unknown
    is_request: NDArray[np.bool_]  # not a fork
    prompt: NDArray[np.int64]
    output: NDArray[np.int64]
    cached: NDArray[np.int64]  # NONE: never admitted
    preemptions: NDArray[np.int64]
    reasons: list[str]
    ttft: NDArray[np.float64]  # NaN: no token
    tpot: NDArray[np.float64]


def classes(log_index: LogIndex, header: Header, by: By) -> dict[str | None, ClassFigures]:
    """Return the figures of each class that has a request. Key None: class unknown."""
    rows = _rows(log_index, header, by)
    places: dict[str | None, list[int]] = {}
    for place, name in enumerate(rows.names):
        places.setdefault(name, []).append(place)
    return {name: _figures(rows, np.array(found)) for name, found in places.items()}


def _rows(log_index: LogIndex, header: Header, by: By) -> _Rows:
    sequences, more = log_index.index.sequences, log_index.index.classes
    count = len(sequences.seq_id)
    root = roots_of(more)
    followed = {before for before in more.before if before != NONE}
    ends = [row for row in range(count) if row not in followed]
    roots = [root[row] for row in ends]
    preempted = np.zeros(count, np.int64)
    np.add.at(preempted, root, np.array(more.num_preemptions, np.int64))
    column = _column
    output, is_request = column(sequences.num_output_tokens, ends), column(more.parent, ends) == NONE
    ttft, tpot = latencies(log_index, header, ends, roots)
    cached = np.where(column(sequences.admitted_in, roots) == NONE, NONE, column(sequences.num_cached_tokens, roots))
    prompt = column(sequences.num_prompt_tokens, roots)
    name_of: dict[By, Callable[[int], str | None]] = {
        "all": lambda place: "all",
        "client": lambda place: None if more.client[roots[place]] == NONE else more.clients[more.client[roots[place]]],
        "priority": lambda place: str(more.priority[roots[place]]),
        "prompt": lambda place: length_class(int(prompt[place])),
        "output": lambda place: length_class(int(output[place])),
        "prefix": lambda place: _prefix_name(more, roots[place]),
    }
    names = [name_of[by](place) for place in range(len(ends))]
    reasons = [sequences.finish_reason[row] for row in ends]
    return _Rows(names, is_request, prompt, output, cached, preempted[roots], reasons, ttft, tpot)


def roots_of(columns: ClassColumns) -> list[int]:
    """Return for each sequence the row of its request's first part."""
    root = list(range(len(columns.before)))
    for row, before in enumerate(columns.before):
        if before != NONE:
            root[row] = root[before]
    return root


def latencies(
    log_index: LogIndex, header: Header, rows: list[int], roots: list[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return TTFT and TPOT of sequences `rows`, in seconds; NaN if undefined.

    A fork has no TTFT. `roots`: for each sequence the row of its request's first part.
    """
    sequences, more = log_index.index.sequences, log_index.index.classes
    now = _clock(log_index, header).tolist()
    ttft, tpot = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    for place, (row, root) in enumerate(zip(rows, roots, strict=True)):
        if (first := sequences.first_token_in[row]) == NONE:
            continue
        if more.parent[row] == NONE:
            ttft[place] = time_to_first_token(now[sequences.submitted_in[root]], now[first])
        found = time_per_output_token(now[first], now[more.last_token_in[row]], sequences.num_output_tokens[row])
        tpot[place] = np.nan if found is None else found
    return ttft, tpot


def _clock(log_index: LogIndex, header: Header) -> NDArray[np.float64]:
    """Return the engine time at the end of each record, in seconds."""
    at, seconds = log_index.series["at"].astype(np.float64), log_index.series["seconds"].astype(np.float64)
    if len(header.instances) > 1:
        busy = BusyTime()
        moved = (log_index.series[name].tolist() for name in ("moved_from", "moved_to"))
        for began, ended, moved_from, moved_to in zip((at - seconds).tolist(), at.tolist(), *moved, strict=True):
            busy.add(began, ended)
            busy.add(moved_from, moved_to)
        return np.fromiter(map(busy.before, at.tolist()), np.float64, len(at))
    return np.cumsum(seconds)


def _column(values: list[int], rows: list[int]) -> NDArray[np.int64]:
    return np.array(values, np.int64)[rows] if rows else np.empty(0, np.int64)


def length_class(length: int) -> str:
    """Return the class of a number of tokens: `256-1023`."""
    place = int(np.searchsorted(LENGTHS, length, side="right")) - 1
    low = LENGTHS[place]
    if place + 1 == len(LENGTHS):
        return f"{low}+"
    high = LENGTHS[place + 1] - 1
    return str(low) if low == high else f"{low}-{high}"


def _prefix_name(more: ClassColumns, row: int) -> str | None:
    if more.texts_unknown:
        return None
    place = more.prefix[row]
    return "short" if place == NONE else more.prefixes[place].hex()


def _figures(rows: _Rows, places: NDArray[np.int64]) -> ClassFigures:
    reasons = [rows.reasons[place] for place in places]
    admitted = places[(rows.cached[places] != NONE) & rows.is_request[places]]
    num_prompt_tokens = int(rows.prompt[admitted].sum())
    found = ClassFigures(
        requests=int(rows.is_request[places].sum()),
        sequences=len(places),
        finished=sum(reason in ("stop", "length") for reason in reasons),
        aborted=reasons.count("abort"),
        prompt_tokens=int(rows.prompt[places][rows.is_request[places]].sum()),
        output_tokens=int(rows.output[places].sum()),
        cached_share=float(rows.cached[admitted].sum()) / num_prompt_tokens if num_prompt_tokens else None,
        preemptions=int(rows.preemptions[places].sum()),
    )
    for name, values in (("ttft", rows.ttft[places]), ("tpot", rows.tpot[places])):
        known = values[~np.isnan(values)]
        if len(known):
            for share in (50, 99):
                setattr(found, f"{name}_p{share}", float(np.percentile(known, share)))
    return found


class Beside(Struct, frozen=True, kw_only=True):
    """Class in two runs; None: that run has no request of the class."""

    name: str | None
    a: ClassFigures | None
    b: ClassFigures | None


def beside(
    a: dict[str | None, ClassFigures], b: dict[str | None, ClassFigures] | None, by: By
) -> tuple[list[Beside], int]:
    """Return the classes of two runs side by side, and the number of classes left out.

    Lengths and priorities are in ascending order, others by number of requests.
    """
    other = b or {}
    names = list(dict.fromkeys([*a, *other]))

    def number(name: str | None) -> int:
        return sum(side[name].requests for side in (a, other) if name in side)

    if by in ("prompt", "output", "priority"):
        names.sort(key=lambda name: int(str(name)) if by == "priority" else int(str(name).split("-")[0].rstrip("+")))
    else:
        names.sort(key=lambda name: (-number(name), str(name)))
    shown = names[:MAX_GROUPS]
    return [Beside(name=name, a=a.get(name), b=other.get(name)) for name in shown], len(names) - len(shown)
