"""Exports of a recording as one file: a timeline for Perfetto, tables as CSV or Parquet."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Literal, get_args

from engine.trace.export import ExportError
from engine.trace.export.perfetto import write_perfetto
from engine.trace.export.tables import write_csv, write_parquet
from engine.trace.log import TraceReader
from engine.trace.observing import UNSAID

Format = Literal["perfetto", "csv", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)
SUFFIXES: dict[Format, str] = {"perfetto": ".perfetto.json", "csv": ".csv.zip", "parquet": ".parquet.zip"}
IN_MEMORY = 8 << 20  # bytes; longer exports use a temporary file


def unavailable() -> dict[Format, str]:
    """Return the formats that this installation cannot write, with the missing package."""
    return {} if find_spec("pyarrow") else {"parquet": "pyarrow"}


def export(path: Path, to: Format) -> IO[bytes]:
    """Return the export as a file positioned at its beginning; the caller closes it.

    Raises:
        ExportError: this installation cannot write it.
        TraceFormatError: it is not a trace. A damaged one is exported up to the damage.
    """
    if to in unavailable():
        raise ExportError("Parquet needs the pyarrow package: pip install 'kvtheater[parquet]'")
    made: IO[bytes] = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 (closed with the response)
    try:
        with TraceReader(path) as reader:
            if reader.header.observed is not None:
                raise ExportError(f"{UNSAID}: there is nothing to write of them")
            if to == "perfetto":
                write_perfetto(reader, made)
            else:
                _zip(reader, write_csv if to == "csv" else write_parquet, made)
    except BaseException:
        made.close()
        raise
    made.seek(0)
    return made


def _zip(reader: TraceReader, write: Callable[[TraceReader, Path], None], to: IO[bytes]) -> None:
    """Write both tables to one zip file."""
    with (
        tempfile.TemporaryDirectory(prefix="kvtheater-") as folder,
        zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as both,
    ):
        write(reader, Path(folder))
        for table in sorted(Path(folder).iterdir()):
            both.write(table, table.name)
