"""Tables of a log for SQL queries. An engine's own log has `steps`, `events`, `requests` and `contents`.

`steps` and `events` have the exported columns (`engine.trace.export.tables`), and `events` also the hashes of its block
and of that block's parent. `is_query` of a `lookup`: it counts in the hit rate (`Account.is_query`). The `reason` of a
`cache` is the operation that copied the content into the block (`swap_in`, `load`, `receive`); NULL: the content was
computed. A row of `requests` is a sequence (`engine.trace.figures`). A monitored server's log has `messages`, `events`,
`metrics` and `contents` instead, because the server does not report requests and steps.

A row of `contents` is the content of a block, by hash. It has the number of times that the content was computed (or
stored), the number of sequences that computed it, the first and last record in which that happened, the blocks and
tokens of the prefix that ends with it, and the number of tokens of that prefix that were computed again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from engine.trace.codec import TraceFormatError
from engine.trace.export.tables import EVENTS, STEPS, Column, Row, event_row, op_values, step_row
from engine.trace.figures import RunReading
from engine.trace.log import TraceReader
from engine.trace.moved_blocks import MovedBlocks
from engine.trace.operations import Lookup
from engine.trace.records import Header, StepRecord
from engine.trace.state import TraceStateError

BATCH_ROWS = 5_000  # rows per insert
PROGRESS_RECORDS = 1_000  # records between progress reports

REASON = EVENTS.index(("reason", str))
HASHES: list[Column] = [("block_hash", str), ("parent_hash", str)]
QUERY: Column = ("is_query", bool)
REQUESTS: list[Column] = [
    ("request_id", str), ("seq_id", int), ("status", str), ("finish_reason", str), ("submitted_in", int),
    ("prompt_tokens", int), ("cached_tokens", int), ("output_tokens", int), ("computed_tokens", int),
    ("preemptions", int), ("blocks_peak", int), ("queue", float), ("ttft", float), ("tpot", float), ("seconds", float),
]  # fmt: skip
MESSAGES: list[Column] = [
    ("record", int), ("at", float), ("instance", int), ("sequence", int), ("published", float), ("replayed", bool),
    ("unmatched", int), ("unread", int), ("problem", str),
]  # fmt: skip
OBSERVED_EVENTS: list[Column] = [
    ("record", int), ("operation", int), ("at", float), ("instance", int), ("type", str), ("reason", str),
    ("medium", str), ("tier", str), ("layers", int), ("lora", str), *HASHES, ("tokens", int), ("fields", str),
]  # fmt: skip
METRICS: list[Column] = [("record", int), ("at", float), ("instance", int), ("name", str), ("value", float)]
TYPES = {int: "INTEGER", bool: "INTEGER", float: "REAL", str: "TEXT"}

# Each content once: its parent if reported, its tokens, and the number of times that it was computed
COMPUTED = """
SELECT block_hash, max(parent_hash) AS parent_hash, 1 AS has_parent, json_array_length(fields, '$.token_ids') AS tokens,
       count(DISTINCT record) FILTER (WHERE reason IS NULL) AS times,
       count(DISTINCT seq_id) FILTER (WHERE reason IS NULL) AS sequences,
       min(record) FILTER (WHERE reason IS NULL) AS first_in, max(record) FILTER (WHERE reason IS NULL) AS last_in
FROM events WHERE type = 'cache' GROUP BY block_hash"""
STORED = """
SELECT block_hash, max(parent_hash) AS parent_hash,
       min(coalesce(json_extract(fields, '$.parent_unsaid'), 0)) = 0 AS has_parent,
       max(tokens) AS tokens, sum(reason IS NULL AND medium IN ('', 'GPU')) AS times, NULL AS sequences,
       min(record) AS first_in, max(record) AS last_in
FROM events WHERE type = 'stored' GROUP BY block_hash"""
# The recursion begins with contents that begin a sequence, so it ends even if damaged hashes form a cycle
PREFIXES = """
CREATE TABLE contents AS
WITH RECURSIVE path(block_hash, prefix_blocks, prefix_tokens, again_tokens) AS (
  SELECT block_hash, 1, tokens, max(0, times - 1) * tokens FROM found WHERE parent_hash IS NULL AND has_parent
  UNION ALL
  SELECT found.block_hash, prefix_blocks + 1, prefix_tokens + found.tokens,
         again_tokens + max(0, found.times - 1) * found.tokens
  FROM path JOIN found ON found.parent_hash = path.block_hash
)
SELECT found.block_hash, parent_hash, tokens, times, sequences, first_in, last_in, prefix_blocks, prefix_tokens,
       again_tokens
FROM found LEFT JOIN path ON path.block_hash = found.block_hash"""


class _Table:
    """Table that is filled in batches."""

    def __init__(self, connection: sqlite3.Connection, name: str, columns: list[Column]) -> None:
        typed = ", ".join(f'"{column}" {TYPES[kind]}' for column, kind in columns)
        connection.execute(f"CREATE TABLE {name} ({typed})")
        self._insert = f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})"
        self._connection = connection
        self._rows: list[Row] = []

    def add(self, rows: Iterable[Row]) -> None:
        self._rows += rows
        if len(self._rows) >= BATCH_ROWS:
            self.write()

    def write(self) -> None:
        """Write the pending rows."""
        self._connection.executemany(self._insert, self._rows)
        self._rows = []


def fill(
    connection: sqlite3.Connection, log: TraceReader, on_progress: Callable[[int], None] = lambda count: None
) -> tuple[int, TraceFormatError | TraceStateError | None]:
    """Write the tables of a log. Returns the number of written records, and the error of the record after them, if any.

    `on_progress` is called with the number of records from time to time. Raises sqlite3.Error if the disk is full.
    """
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("BEGIN")
    tables = _Observed(connection) if log.header.observed is not None else _Own(connection, log)
    count, problem = 0, None
    while count < len(log):
        try:
            record = log.record(count)
            tables.add(record, log.num_record_bytes(count))
        except (TraceFormatError, TraceStateError) as error:
            problem = error
            break
        count += 1
        if count % PROGRESS_RECORDS == 0:
            on_progress(count)
    tables.finish()
    connection.execute("CREATE INDEX contents_by_parent ON contents (parent_hash)")
    connection.execute("COMMIT")
    connection.execute("ANALYZE")
    return count, problem


def names_of(header: Header) -> tuple[str, ...]:
    """Return the names of the log's tables."""
    return _Own.names if header.observed is None else _Observed.names


class _Own:
    """Tables of an engine's own log."""

    names = ("steps", "events", "requests", "contents")

    def __init__(self, connection: sqlite3.Connection, log: TraceReader) -> None:
        self._connection = connection
        self._steps = _Table(connection, "steps", STEPS)
        self._events = _Table(connection, "events", [*EVENTS, *HASHES, QUERY])
        self._requests = _Table(connection, "requests", REQUESTS)
        self._reading = RunReading(log.header)
        self._moved = MovedBlocks()

    def add(self, record: StepRecord, num_bytes: int) -> None:
        self._reading.read(record, num_bytes)
        rows, queries = list[Row](), {op.seq_id for op in self._reading.queries}
        moved = self._moved.read(record.ops, {entry.seq_id: entry.start for entry in record.batch})
        for position, op in enumerate(record.ops):
            values = op_values(op)
            row = event_row(record, position, values)
            row[REASON] = moved.get(position, row[REASON])
            is_query = isinstance(op, Lookup) and op.seq_id in queries
            rows.append([*row, values.get("block_hash"), values.get("parent_hash"), is_query or None])
        self._steps.add([step_row(record)])
        self._events.add(rows)

    def finish(self) -> None:
        self._steps.write()
        self._events.write()
        for (request_id, _), members in self._reading.members.items():
            self._requests.add(
                [
                    request_id, one.seq_id, one.status, one.finish_reason, one.submitted_in, len(one.prompt_token_ids),
                    one.num_cached_tokens, len(one.tokens), one.computed_tokens, one.num_preemptions, one.blocks_peak,
                    one.queue, one.ttft, one.tpot, one.seconds,
                ]
                for one in members
            )  # fmt: skip
        self._requests.write()
        for columns in ("type, reason", "block_hash, type, record", "seq_id, type"):
            self._connection.execute(f"CREATE INDEX by_{columns.split(',')[0]} ON events ({columns})")
        _create_contents(self._connection, COMPUTED)


class _Observed:
    """Tables of a monitored server's log."""

    names = ("messages", "events", "metrics", "contents")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._messages = _Table(connection, "messages", MESSAGES)
        self._events = _Table(connection, "events", OBSERVED_EVENTS)
        self._metrics = _Table(connection, "metrics", METRICS)

    def add(self, record: StepRecord, num_bytes: int) -> None:
        index, at, instance, seen = record.index, record.timing.at, record.instance, record.seen
        self._events.add([_event_row(record, position, op_values(op)) for position, op in enumerate(record.ops)])
        if seen is None:
            return
        self._messages.add(
            [[index, at, instance, seen.sequence, seen.published, seen.replayed, seen.num_unmatched, seen.num_unread,
              seen.problem or None]]
        )  # fmt: skip
        self._metrics.add([index, at, instance, name, value] for name, value in seen.metrics.items())

    def finish(self) -> None:
        for table in (self._messages, self._events, self._metrics):
            table.write()
        for columns in ("type, reason", "block_hash, type, record"):
            self._connection.execute(f"CREATE INDEX by_{columns.split(',')[0]} ON events ({columns})")
        self._connection.execute("CREATE INDEX by_name ON metrics (name, at)")
        _create_contents(self._connection, STORED)


def _event_row(record: StepRecord, position: int, values: dict[str, Any]) -> Row:
    """Return a row of OBSERVED_EVENTS. Reasons: `again`, stored while cached; `copy`, removed while copies remain."""
    reason = values.get("reason") or ("again" if values.get("again") else "copy" if values.get("num_left") else None)
    tokens = values.get("token_ids")
    return [
        record.index, position, record.timing.at, record.instance, values["type"], reason, values.get("medium"),
        values.get("tier"), values.get("group"), values.get("lora_name"), values.get("block_hash"),
        values.get("parent_hash"), None if tokens is None else len(tokens), msgspec.json.encode(values).decode(),
    ]  # fmt: skip


def _create_contents(connection: sqlite3.Connection, select: str) -> None:
    connection.execute(f"CREATE TEMP TABLE found AS {select}")
    connection.execute("CREATE INDEX temp.found_by_parent ON found (parent_hash)")
    connection.execute(PREFIXES)
    connection.execute("DROP TABLE temp.found")
