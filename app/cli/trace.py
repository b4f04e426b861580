"""`kvtheater trace show`: the steps of a recorded run."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from app.cli import trace_check, trace_compare, trace_explain, trace_export, trace_query, trace_what_if
from app.cli.options import UserError, add_command, file_errors
from app.cli.reading import damage_status
from app.cli.terminal import counted, say, say_json
from engine.trace.codec import TraceFormatError
from engine.trace.log import TraceReader
from engine.trace.operations import KnownSince, Sample, Submit, Write
from engine.trace.records import StepRecord


def add_parser(commands: Any) -> None:
    trace = add_command(commands, "trace", "inspect a recorded run", "  kvtheater trace show run.kvtrace\n")
    subcommands = trace.add_subparsers(title="commands", metavar="COMMAND", required=True)
    parser = add_command(
        subcommands,
        "show",
        "show a trace's header and records; exit status 1 if the file is damaged",
        "  kvtheater trace show run.kvtrace\n"
        "  kvtheater trace show run.kvtrace --record 12\n"
        "  kvtheater trace show run.kvtrace --json | jq .kind\n",
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--record", type=int, metavar="I", help="print this record in full, counted from 0")
    parser.add_argument("--json", action="store_true", help="print records as JSON lines, the header first")
    parser.set_defaults(run=run)
    for module in (trace_compare, trace_explain, trace_check, trace_export, trace_query, trace_what_if):
        module.add_parser(subcommands)


def run(arguments: argparse.Namespace) -> int:
    """Print the trace. Exit status 0 if it is sound, 1 if it is damaged (the part before the damage is printed)."""
    path: Path = arguments.file
    try:
        with file_errors("read", path):
            reader = TraceReader(path)
    except TraceFormatError as error:
        say(f"kvtheater: {path}: {error}", to=sys.stderr)
        return 1
    with reader:
        damage = reader.damage
        try:
            if arguments.record is not None:
                _show_record(reader, arguments.record, arguments.json)
            elif arguments.json:
                _print_json(reader)
            else:
                _print_table(reader)
        except TraceFormatError as error:  # the checksum is right, the record is not
            damage = str(error)
    return damage_status(path, damage)


def _show_record(reader: TraceReader, index: int, as_json: bool) -> None:
    if not 0 <= index < len(reader):
        raise UserError(f"there is no record {index}; the trace has {len(reader)}, counted from 0")
    record = reader.record(index)
    if as_json:
        say_json(record)
        return
    say(f"record {index}: {_summary(record)}")
    for entry in record.batch:
        end = entry.start + len(entry.token_ids)
        say(f"  {entry.phase} of sequence {entry.seq_id}: positions {entry.start} to {end - 1}")
    for op in record.ops:
        fields = {name: getattr(op, name) for name in op.__struct_fields__}
        say(f"  {type(op).__name__.lower()} " + " ".join(f"{k}={_short(v)}" for k, v in fields.items()))
    for output in record.outputs:
        say(f"  sequence {output.seq_id} -> {output.token_id} {_short(output.token_bytes)} {output.logprob:.3f}")


def _print_json(reader: TraceReader) -> None:
    say_json(reader.header)
    for index in range(len(reader)):
        say_json(reader.record(index))


def _print_table(reader: TraceReader) -> None:
    header = reader.header
    engine, machine = header.engine, header.machine
    say(f"{header.format} {header.version} by {header.generator}, {header.created}")
    if header.observed is not None:
        return _print_observed(reader)
    if header.watched is not None:
        say(f"watched  {header.watched.source}, from inside; its block {header.watched.first_block_id} is block 0 here")
        say(f"unknown  {', '.join(header.watched.unknown)}")
    say(f"model    {header.model.name} ({header.model.num_layers} layers, {header.model.dtype})")
    say(
        f"engine   {engine.get('strategy')}, {engine.get('num_blocks')} blocks of {engine.get('block_size')}, "
        f"{header.kv_bytes_per_token:,} KV bytes a token, seed {engine.get('seed')}"
    )
    say(f"machine  {machine.device}, {machine.processor}")
    say(f"records  {len(reader)}")
    if len(reader):
        say("", f"{'record':>6}  {'step':>5}  {'blocks held':>11}  operations")
    for index in range(len(reader)):
        record = reader.record(index)
        held = f"{record.memory.blocks_held}/{record.memory.num_blocks}"
        say(f"{index:>6}  {record.step:>5}  {held:>11}  {_summary(record)}")


def _print_observed(reader: TraceReader) -> None:
    """Print the log of a monitored server: its reports, and the names of unreported facts."""
    header = reader.header
    assert header.observed is not None
    pool = f"{header.engine['num_blocks']} blocks of {header.engine['block_size']}"
    say(f"watched  {header.observed.source}, {header.model.name}, {pool}")
    say(f"unknown  {', '.join(header.observed.unknown)}")
    say(f"records  {len(reader)}")
    if len(reader):
        say("", f"{'record':>6}  {'known cached':>12}  messages")
    for index in range(len(reader)):
        record = reader.record(index)
        seen, parts = record.seen, [_summary(record)]
        if seen is not None and seen.sequence is not None:
            parts.append(f"message {seen.sequence}" + (", asked for" if seen.replayed else ""))
        parts += [f"since message {op.sequence}: {op.reason}" for op in record.ops if isinstance(op, KnownSince)]
        if seen is not None:
            parts += [f"{len(seen.metrics)} metrics"] if seen.metrics else []
            parts += [seen.problem] if seen.problem else []
        say(f"{index:>6}  {record.memory.blocks_cached:>12,}  {'; '.join(parts)}")


def _summary(record: StepRecord) -> str:
    """Return a one-line summary of a record."""
    parts = []
    for phase in ("prefill", "decode"):
        entries = [e for e in record.batch if e.phase == phase]
        if entries:
            tokens = sum(len(e.token_ids) for e in entries)
            parts.append(f"{phase} {counted(tokens, 'token')} of {counted(len(entries), 'sequence')}")
    submitted = [op for op in record.ops if isinstance(op, Submit)]
    if submitted:
        subject = submitted[0].request_id if len(submitted) == 1 else counted(len(submitted), "sequence")
        parts.append(f"{subject}, {counted(sum(len(op.prompt_token_ids) for op in submitted), 'prompt token')}")
    names = Counter(type(op).__name__.lower() for op in record.ops if not isinstance(op, Submit | Write | Sample))
    parts += [f"{name} {count}" if count > 1 else name for name, count in names.items()]
    text = "".join(o.text for o in record.outputs)
    return ": ".join([record.kind, *([", ".join(parts)] if parts else [])]) + (f" -> {text!r}" if text else "")


def _short(value: Any) -> str:
    if isinstance(value, bytes):
        text = value.hex()
    elif isinstance(value, list) and value and isinstance(value[0], bytes):
        text = "[" + " ".join(v.hex() for v in value) + "]"
    else:
        text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
