"""`kvtheater trace query`: saved or custom SQL queries over a whole log."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from app.cli.options import UserError, add_command, user_errors
from app.cli.reading import damage_status, open_trace
from app.cli.terminal import say, say_json
from app.ground.paths import data_dir
from app.log_index.cache_dir import drop_unused, folder_in, name_of
from engine.trace.derived_file import DerivedFileError
from engine.trace.log import TraceReader
from engine.trace.messages import languages
from engine.trace.query.database import MAX_ROWS, Answer, LogDatabase, QueryError
from engine.trace.query.questions import questions
from engine.trace.query.table_cache import DATA, MIN_CACHED_BYTES, SUFFIX, CachedTables, make

WIDEST = 44  # characters of a column


def add_parser(commands: Any) -> None:
    """Add the subcommand to those of `trace`."""
    parser = add_command(
        commands,
        "query",
        "query a whole log: a prepared question, such as blocks evicted and computed again, or your own SQL",
        "  kvtheater trace query run.kvtrace                                   list the prepared questions\n"
        "  kvtheater trace query run.kvtrace preempted_twice\n"
        '  kvtheater trace query run.kvtrace --sql "SELECT type, count(*) FROM events GROUP BY type"\n'
        "  kvtheater trace query run.kvtrace slowest_steps --json | jq .rows\n",
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument(
        "question", nargs="?", choices=list(questions()), metavar="QUESTION", help="a prepared question"
    )
    parser.add_argument(
        "--sql",
        help="your own query over the tables steps, events, requests and contents; for a monitored server messages, "
        "events, metrics and contents",
    )
    parser.add_argument(
        "--limit", type=int, default=MAX_ROWS, metavar="N", help="at most N rows (default: %(default)s)"
    )
    parser.add_argument("--lang", choices=languages(), default="en", help="language of the list (default: en)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the query. Exit status 0 if the trace is sound, 1 if it is damaged (the part before that is queried)."""
    if arguments.question and arguments.sql:
        raise UserError("give a question's name or --sql, not both")
    if arguments.limit < 1:
        raise UserError(f"--limit must be at least 1, not {arguments.limit}")
    with open_trace(arguments.file) as log:
        observed = log.header.observed is not None
        if arguments.question or arguments.sql:
            sql = arguments.sql or _sql_of(arguments.question, observed)
            (_say_json if arguments.json else _print)(_answer(log, arguments.file, sql, arguments.limit))
        else:
            _list(arguments.lang, arguments.json, observed)
        return damage_status(arguments.file, log.damage)


def _sql_of(name: str, observed: bool) -> str:
    question = questions()[name]
    if question.observed is not observed:
        kind = "a monitored server's log" if question.observed else "an engine's own log"
        raise UserError(f"{name} is a query over {kind}, which this log is not; omit the name to list the queries")
    return question.sql


def _answer(log: TraceReader, file: Path, sql: str, limit: int) -> Answer:
    """Query a log. A short log is read for each query; the tables of a long one are cached."""
    with user_errors(QueryError):
        if log.num_bytes > MIN_CACHED_BYTES and (cached := _cached_tables(log, file)) is not None:
            return cached.ask(sql, limit)
        with LogDatabase(log) as database:
            return database.ask(sql, limit)


def _cached_tables(log: TraceReader, file: Path) -> CachedTables | None:
    """Return the cached tables, which are built if needed; None if they cannot be cached."""
    folder = folder_in(data_dir())
    target = folder / f"{name_of(file)}{SUFFIX}"
    try:
        return CachedTables(target, log)
    except DerivedFileError:
        pass
    terminal = sys.stderr.isatty()

    def on_progress(count: int) -> None:
        if terminal:
            sys.stderr.write(f"\rbuilding the log's tables: {100 * count // len(log)} %")
            sys.stderr.flush()

    try:
        drop_unused(folder, SUFFIX, DATA, set())
        index = make(log, target, on_progress)
        if terminal:
            sys.stderr.write("\n")
        if index.problem:
            say(f"kvtheater: {file} contradicts itself: {index.problem}", to=sys.stderr)
        return CachedTables(target, log)
    except (OSError, DerivedFileError) as error:
        say(f"kvtheater: the tables are not cached: {error}", to=sys.stderr)
        return None


def _list(language: str, as_json: bool, observed: bool) -> None:
    saved = [one for one in questions().values() if one.observed is observed]
    if as_json:
        say_json([{"id": one.id, "text": getattr(one, language), "sql": one.sql.strip()} for one in saved])
        return
    width = max(len(one.id) for one in saved)
    for one in saved:
        say(f"{one.id:<{width}}  {getattr(one, language)}")


def _say_json(answer: Answer) -> None:
    say_json({"columns": answer.columns, "rows": answer.rows, "is_cut": answer.is_cut})


def _print(answer: Answer) -> None:
    if not answer.rows:
        say("no rows")
        return
    rows = [[*map(_text, row[:-1]), _text(row[-1], None)] for row in answer.rows]
    numbers = [all(isinstance(row[i], int | float | None) for row in answer.rows) for i in range(len(answer.columns))]
    widths = [max(len(name), *(len(row[i]) for row in rows)) for i, name in enumerate(answer.columns)]
    for row in [answer.columns, *rows]:
        cells = zip(row, widths, numbers, strict=True)
        say("  ".join(cell.rjust(width) if number else cell.ljust(width) for cell, width, number in cells).rstrip())
    if answer.is_cut:
        say(f"… more rows; --limit is {len(rows)}")


def _text(value: Any, widest: int | None = WIDEST) -> str:
    text = "" if value is None else value.hex() if isinstance(value, bytes) else str(value)
    return text if widest is None or len(text) <= widest else text[: widest - 1] + "…"
