"""Questions over a run's whole log (`engine.trace.query`), answered to the page."""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple, TypedDict

from app.errors import AppError
from app.run import OpenLog
from engine.trace.codec import TraceFormatError
from engine.trace.query.database import LogDatabase, QueryError
from engine.trace.query.questions import questions
from engine.trace.state import TraceStateError

MOST_BYTES = 64 << 20  # of a log that a server reads for the page; the command line has no such bound
MOST_SECONDS = 5.0
MOST_ROWS = 200
FRESH = 5.0  # seconds in which another question about a run that goes on is asked of what was read last


class KeptQuestion(TypedDict):
    """One that everybody asks."""

    id: str
    en: str
    zh: str
    sql: str


class QuestionsAnswer(TypedDict):
    """/api/questions."""

    questions: list[KeptQuestion]


class QueryAnswer(TypedDict):
    """/api/theaters/<theater_id>/query: rows of named columns, of the first `num_records` records."""

    columns: list[str]
    rows: list[list[Any]]
    is_cut: bool  # there are more
    num_records: int


class _Held(NamedTuple):
    run: OpenLog
    num_records: int
    at: float
    database: LogDatabase


class LogQuestions:
    """Reads one log at a time into tables, and keeps the last one for the next question."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # reading takes a core, so it is one question at a time, whoever asks
        self._held: _Held | None = None

    def answer(self, run: OpenLog, sql: str) -> QueryAnswer:
        """What one statement finds in a run, as far as it is shown.

        Raises:
            AppError: `busy` while another question is answered; `refused`: a log that is too long, or a question that
                cannot be answered.
        """
        if not self._lock.acquire(blocking=False):
            raise AppError("busy", "another question is being answered; ask again in a moment")
        try:
            held = self._read(run)
            found = held.database.ask(sql, MOST_ROWS, MOST_SECONDS)
        except QueryError as error:
            raise AppError("refused", str(error)) from error
        except (TraceFormatError, TraceStateError) as error:
            raise AppError("refused", f"the log cannot be read: {error}") from error
        finally:
            self._lock.release()
        rows = [[value.hex() if isinstance(value, bytes) else value for value in row] for row in found.rows]
        return {"columns": found.columns, "rows": rows, "is_cut": found.is_cut, "num_records": held.num_records}

    def _read(self, run: OpenLog) -> _Held:
        with run.reading() as log:
            held, count = self._held, len(log)
            if held is not None and held.run is run:
                is_fresh = time.monotonic() - held.at < FRESH
                if held.num_records == count or (is_fresh and held.num_records < count):  # never more than is shown
                    return held
            if log.num_bytes > MOST_BYTES:
                size, most = log.num_bytes >> 20, MOST_BYTES >> 20
                raise AppError(
                    "refused",
                    f"this log has {size} MiB, and the page asks at most {most}; `kvtheater trace query` asks any",
                )
            database = LogDatabase(log)
        if held is not None:
            held.database.close()
        self._held = _Held(run, count, time.monotonic(), database)
        return self._held


def kept() -> QuestionsAnswer:
    """The questions that are kept."""
    return {
        "questions": [
            {"id": one.id, "en": one.en, "zh": one.zh, "sql": one.sql.strip()} for one in questions().values()
        ]
    }
