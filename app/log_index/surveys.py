"""Surveys of logs that are too long to be sent whole.

That of a run that goes on is written by a process that reads on as the log grows, while somebody looks at it.
"""

from __future__ import annotations

from pathlib import Path

from app.log_index.derived_files import MadeFiles
from engine.trace.log import TraceReader
from engine.trace.survey.survey import Survey

MOST_RECORDS = 20_000  # of a log that a page reads whole
MOST_BYTES = 64 << 20  # of its records: arrays are only sent as they are shown


def is_large(log: TraceReader) -> bool:
    """Whether a page is told about the log in pieces, and neither takes nor keeps all of it."""
    return len(log) > MOST_RECORDS or log.all_record_bytes > MOST_BYTES


class Surveys(MadeFiles[Survey]):
    """The surveys of a server."""

    program = "engine.trace.survey.make"
    suffix, data_suffix = ".survey", ".rows"
    follows = True
    failed = "the log cannot be surveyed"

    def open(self, index: Path, log: TraceReader, known: Survey | None) -> Survey:
        """Raises MadeFileError."""
        return Survey(index, log, known)

    def is_of(self, made: Survey, log: TraceReader) -> bool:
        """Whether it is of this log."""
        return made.is_of(log)

    def is_whole(self, made: Survey, log: TraceReader) -> bool:
        """Whether it knows all of it, or all that can be known."""
        index = made.index
        return index.is_done and (bool(index.problem) or index.num_records == len(log))
