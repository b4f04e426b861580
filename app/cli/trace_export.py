"""`kvtheater trace export`: a recorded run for other programs."""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from app.cli.options import UserError, add_command, file_errors, user_errors
from app.cli.reading import damage_status, open_trace, refuse_monitored
from app.cli.terminal import say
from engine.trace.export import ExportError
from engine.trace.log import TraceReader

FORMATS = ("perfetto", "csv", "parquet", "kv-events")


def add_parser(commands: Any) -> None:
    """Add the subcommand to those of `trace`."""
    parser = add_command(
        commands,
        "export",
        "write a trace for other programs: Perfetto, tables, vLLM's KV events",
        "  kvtheater trace export run.kvtrace --to perfetto -o run.json       open it on ui.perfetto.dev\n"
        "  kvtheater trace export run.kvtrace --to csv -o tables/             steps.csv and events.csv\n"
        "  kvtheater trace export run.kvtrace --to parquet -o tables/         likewise; needs pyarrow\n"
        "  kvtheater trace export run.kvtrace --to kv-events -o run.jsonl     JSON lines; msgpack for other suffixes\n",
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--to", required=True, choices=FORMATS, help="format")
    parser.add_argument(
        "-o", "--output", required=True, type=Path, metavar="OUT", help="file, or folder for the tables (csv, parquet)"
    )
    parser.add_argument("--force", action="store_true", help="overwrite")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Export. Exit status 0 if the trace is sound, 1 if it is damaged (the part before the damage is exported)."""
    path, output, to = arguments.file, arguments.output, arguments.to
    with open_trace(path) as reader:
        refuse_monitored(reader, "`kvtheater trace show --json` prints each record")
        with user_errors(ExportError), file_errors("write", output):
            written = _tables(reader, output, to, arguments.force) if to in ("csv", "parquet") else None
            written = written or [_file(reader, output, to, arguments.force)]
        for done in written:
            say(f"{done}: {done.stat().st_size:,} bytes")
        return damage_status(path, reader.damage)


def _file(reader: TraceReader, output: Path, to: str, force: bool) -> Path:
    from engine.trace.export.kv_events import write_kv_events, write_kv_events_json
    from engine.trace.export.perfetto import write_perfetto

    _check_absent([output], force)
    unfinished = output.with_name(output.name + ".part")
    try:
        with unfinished.open("wb") as file:
            if to == "perfetto":
                write_perfetto(reader, file)
            elif output.suffix in (".jsonl", ".json"):
                write_kv_events_json(reader, file)
            else:
                write_kv_events(reader, file)
        unfinished.replace(output)
    finally:
        unfinished.unlink(missing_ok=True)
    return output


def _tables(reader: TraceReader, folder: Path, to: str, force: bool) -> list[Path]:
    from engine.trace.export.tables import write_csv, write_parquet

    files = [folder / f"{name}.{to}" for name in ("steps", "events")]
    _check_absent(files, force)
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as unfinished:
        (write_csv if to == "csv" else write_parquet)(reader, Path(unfinished))
        for file in files:
            (Path(unfinished) / file.name).replace(file)
    return files


def _check_absent(files: list[Path], force: bool) -> None:
    for file in files:
        if file.exists() and not force:
            raise UserError(f"{file} exists already; choose another name, or --force to overwrite it")
