"""Exports of a recording as one file: a timeline for Perfetto, or tables as CSV or Parquet."""

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
    """Return the export as a file positioned at its beginning, which the caller closes.

    A damaged recording is exported up to the damage.

    Raises:
        ExportError: this installation cannot write the format, or the recording cannot be exported.
        TraceFormatError: the file is not a trace.
    """
    if to in unavailable():
        raise ExportError("Parquet needs the pyarrow package: pip install 'kvtheater[parquet]'")
    output: IO[bytes] = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 (closed with the response)
    try:
        with TraceReader(path) as reader:
            if reader.header.observed is not None:
                raise ExportError(f"{UNSAID}: there is nothing to write of them")
            if to == "perfetto":
                write_perfetto(reader, output)
            else:
                _zip(reader, write_csv if to == "csv" else write_parquet, output)
    except BaseException:
        output.close()
        raise
    output.seek(0)
    return output


def _zip(reader: TraceReader, write: Callable[[TraceReader, Path], None], to: IO[bytes]) -> None:
    """Write both tables to one zip file."""
    with (
        tempfile.TemporaryDirectory(prefix="kvtheater-") as folder,
        zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        write(reader, Path(folder))
        for table in sorted(Path(folder).iterdir()):
            archive.write(table, table.name)
