"""SQL queries of the page over the log of a run (`engine.trace.query`)."""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple, TypedDict

from app.ground.errors import AppError, refuse
from app.log_index.derived_files import LogTables
from app.session.run import OpenLog
from engine.trace.codec import TraceFormatError
from engine.trace.derived_file import DerivedFileError
from engine.trace.query.database import LogDatabase, QueryError
from engine.trace.query.questions import questions
from engine.trace.query.table_cache import MIN_CACHED_BYTES, CachedTables
from engine.trace.state import TraceStateError

MAX_SECONDS = 5.0
MAX_ROWS = 200
FRESH = 5.0  # seconds for which queries of a live run reuse its tables


class SavedQuestion(TypedDict):
    """Saved question."""

    id: str
    observed: bool  # for logs of monitored servers; else for logs of this engine
    en: str
    zh: str
    sql: str


class QuestionsAnswer(TypedDict):
    """Response of /api/questions."""

    questions: list[SavedQuestion]


class QueryAnswer(TypedDict):
    """Response of /api/theaters/<session_id>/query, a result over the first `num_records` records."""

    columns: list[str]
    rows: list[list[Any]]
    is_cut: bool  # whether rows are omitted
    num_records: int


class _Held(NamedTuple):
    run: OpenLog
    num_records: int
    at: float
    database: LogDatabase


class LogQuestions:
    """Queries over one log at a time, whose tables are cached for the next query.

    A separate process builds the tables of long logs, in the data folder.
    """

    def __init__(self, tables: LogTables) -> None:
        self._tables = tables
        self._lock = threading.Lock()  # one query at a time, because reading a log occupies a core
        self._held: _Held | None = None

    def answer(self, run: OpenLog, sql: str) -> QueryAnswer:
        """Return the rows of one SQL statement on the visible part of a run.

        Raises:
            AppError: `busy`: another query is running; `loading`: the tables of a long log are being built; `refused`:
                the query cannot be answered.
        """
        if not self._lock.acquire(blocking=False):
            raise refuse("busy", "question.busy")
        try:
            num_records, database = self._of(run)
            found = database.ask(sql, MAX_ROWS, MAX_SECONDS)
        except DerivedFileError as error:
            self._tables.forget(run)
            raise refuse("loading", "question.anew", error=error) from error
        except QueryError as error:
            raise AppError("refused", str(error), translations=error.translations) from error
        except (TraceFormatError, TraceStateError) as error:
            raise refuse("refused", "log.unreadable", error=error) from error
        finally:
            self._lock.release()
        rows = [[value.hex() if isinstance(value, bytes) else value for value in row] for row in found.rows]
        return {"columns": found.columns, "rows": rows, "is_cut": found.is_cut, "num_records": num_records}

    def _of(self, run: OpenLog) -> tuple[int, LogDatabase | CachedTables]:
        """Return the number of records in the tables, and the tables."""
        if run.log.num_bytes > MIN_CACHED_BYTES:
            cached = self._tables.find(run)
            return cached.index.num_records, cached
        held = self._read(run)
        return held.num_records, held.database

    def _read(self, run: OpenLog) -> _Held:
        with run.reading() as log:
            held, count = self._held, len(log)
            if held is not None and held.run is run:
                is_fresh = time.monotonic() - held.at < FRESH
                if held.num_records == count or (is_fresh and held.num_records < count):  # only what is visible
                    return held
            database = LogDatabase(log)
        if held is not None:
            held.database.close()
        self._held = _Held(run, count, time.monotonic(), database)
        return self._held


def saved_questions() -> QuestionsAnswer:
    """Return the saved questions."""
    return {
        "questions": [
            {"id": one.id, "observed": one.observed, "en": one.en, "zh": one.zh, "sql": one.sql.strip()}
            for one in questions().values()
        ]
    }
