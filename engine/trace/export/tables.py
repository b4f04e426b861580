"""Tables `steps` (a row per record) and `events` (a row per operation), as CSV or Parquet."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import fields

from engine.trace.export import ExportError
from engine.trace.limits import Int
from engine.trace.log import TraceReader
from engine.trace.operations import Op
from engine.trace.records import Memory, StepRecord, Timing, Work

ROW_GROUP = 20_000  # rows of a Parquet row group
FORMULA = tuple("=+-@\t\r\n＝＋－＠")  # first characters of a formula in spreadsheets

Column = tuple[str, type]
Row = list[Any]

_TIMES: list[Column] = [(field.name, {bool: bool, Int: int}.get(field.type, float)) for field in fields(Timing)]
_MEMORY: list[Column] = [(name, int) for name in Memory.__struct_fields__]
_WORK: list[Column] = [(name, int) for name in Work.__struct_fields__ if name != "num_tokens"]
STEPS: list[Column] = [
    ("record", int), ("kind", str), ("step", int), *_TIMES, ("num_sequences", int), ("prefill_tokens", int),
    ("decode_tokens", int), ("num_outputs", int), ("text", str), *_MEMORY, *_WORK, ("has_capture", bool),
    ("integrity", str),
]  # fmt: skip
EVENTS: list[Column] = [
    ("record", int), ("operation", int), ("step", int), ("at", float), ("type", str), ("seq_id", int),
    ("block_id", int), ("logical", int), ("reason", str), ("fields", str),
]  # fmt: skip


def step_rows(reader: TraceReader) -> Iterator[Row]:
    """Yield a row for each record, in the order of STEPS."""
    for index in range(len(reader)):
        yield step_row(reader.record(index))


def event_rows(reader: TraceReader) -> Iterator[Row]:
    """Yield a row for each operation. `fields` is the whole operation as JSON, with bytes as hexadecimal text."""
    for index in range(len(reader)):
        record = reader.record(index)
        for position, op in enumerate(record.ops):
            yield event_row(record, position, op_values(op))


def op_values(op: Op) -> dict[str, Any]:
    """Return an operation's JSON value: `type` and its fields, with bytes as hexadecimal text."""
    values: dict[str, Any] = _plain(msgspec.to_builtins(op, builtin_types=(bytes,), str_keys=True))
    return values


def event_row(record: StepRecord, position: int, values: dict[str, Any]) -> Row:
    """Return a row of EVENTS for operation `position` of the record, from its `op_values`."""
    common = [values.get(name) for name in ("seq_id", "block_id", "logical", "reason")]
    text = msgspec.json.encode(values).decode()
    return [record.index, position, record.step, record.timing.at, values["type"], *common, text]


def write_csv(reader: TraceReader, folder: Path) -> None:
    """Write `steps.csv` and `events.csv` to the folder, in UTF-8, with a header row. None becomes an empty cell.

    A text that a spreadsheet would read as a formula is prefixed with an apostrophe.
    """
    for name, columns, rows in _tables(reader):
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([column for column, _ in columns])
            writer.writerows([escape_formula(value) for value in row] for row in rows)


def write_parquet(reader: TraceReader, folder: Path) -> None:
    """Write `steps.parquet` and `events.parquet` to the folder.

    Raises:
        ExportError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ExportError("Parquet needs the pyarrow package: pip install 'kvtheater[parquet]'") from error
    types = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
    for name, columns, rows in _tables(reader):
        schema = pa.schema([(column, types[kind]) for column, kind in columns])
        with pq.ParquetWriter(folder / f"{name}.parquet", schema, compression="zstd") as writer:
            while group := list(islice(rows, ROW_GROUP)):
                columns_of = zip(zip(*group, strict=True), schema, strict=True)
                values = [pa.array(column, field.type) for column, field in columns_of]
                writer.write_table(pa.Table.from_arrays(values, schema=schema))


def _tables(reader: TraceReader) -> Iterator[tuple[str, list[Column], Iterator[Row]]]:
    yield "steps", STEPS, step_rows(reader)
    yield "events", EVENTS, event_rows(reader)


def step_row(record: StepRecord) -> Row:
    """Return a row of STEPS."""
    tokens = {"prefill": 0, "decode": 0}
    for entry in record.batch:
        tokens[entry.phase] += len(entry.token_ids)
    text = "".join(output.text for output in record.outputs)
    work = [getattr(record.work, name) if record.work else None for name, _ in _WORK]
    return [
        record.index, record.kind, record.step, *(getattr(record.timing, name) for name, _ in _TIMES),
        len(record.batch), tokens["prefill"], tokens["decode"], len(record.outputs), text,
        *(getattr(record.memory, name) for name, _ in _MEMORY), *work, record.has_capture,
        "; ".join(found.text for found in record.objections),
    ]  # fmt: skip


def escape_formula(value: Any) -> Any:
    """Return the cell value, with an apostrophe before a text that a spreadsheet would read as a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list) else value
