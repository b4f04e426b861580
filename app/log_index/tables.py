"""The tables of logs that are too long to be read for a question."""

from __future__ import annotations

import time
from pathlib import Path

from app.log_index.derived_files import MadeFiles
from engine.trace.log import TraceReader, TraceWriter
from engine.trace.query.kept import DATA, SUFFIX, KeptTables

SHARE = 10  # of a run that goes on they are made anew at most so often that it takes one part of the time
LEAST = 60.0  # seconds


class LogTables(MadeFiles[KeptTables]):
    """Those of a server."""

    program = "engine.trace.query.make"
    suffix, data_suffix = SUFFIX, DATA
    follows = False
    failed = "no tables can be made of the log"

    def open(self, index: Path, log: TraceReader, known: KeptTables | None) -> KeptTables:
        """Raises MadeFileError."""
        return KeptTables(index, log)

    def is_of(self, made: KeptTables, log: TraceReader) -> bool:
        """Whether they are of this log."""
        return made.is_of(log)

    def is_whole(self, made: KeptTables, log: TraceReader) -> bool:
        """Whether they have all of it, or of a run that goes on, were made not long ago."""
        index = made.index
        if index.problem or index.num_records == len(log):
            return True
        age = time.monotonic() - made.opened
        return isinstance(log, TraceWriter) and age < max(LEAST, SHARE * index.seconds)
