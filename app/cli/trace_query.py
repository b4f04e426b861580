"""`kvtheater trace query`: questions over a whole log, kept ones or one's own in SQL."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from app.cli.options import UserError, add_command
from app.cli.reading import expect_engines_own, open_trace
from app.cli.terminal import say, say_json
from engine.trace.query.database import MOST_ROWS, Answer, LogDatabase, QueryError
from engine.trace.query.questions import questions
from engine.trace.telling import languages

WIDEST = 44  # characters of a column


def add_parser(what: Any) -> None:
    """The subcommand of `trace`."""
    parser = add_command(
        what,
        "query",
        "ask a whole log: evicted and needed again, preempted twice, worth pinning, or your own SQL",
        "  kvtheater trace query run.kvtrace                                   the questions that are kept\n"
        "  kvtheater trace query run.kvtrace preempted_twice\n"
        '  kvtheater trace query run.kvtrace --sql "SELECT type, count(*) FROM events GROUP BY type"\n'
        "  kvtheater trace query run.kvtrace slowest_steps --json | jq .rows\n",
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("question", nargs="?", choices=list(questions()), metavar="QUESTION", help="one that is kept")
    parser.add_argument("--sql", help="one of your own, over the tables steps, events and requests")
    parser.add_argument("--limit", type=int, default=MOST_ROWS, metavar="N", help="rows (default: %(default)s)")
    parser.add_argument("--lang", choices=languages(), default="en", help="of the list (default: en)")
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Ask. 0 when the trace is sound, 1 when it is damaged (what came before the damage is asked)."""
    if arguments.question and arguments.sql:
        raise UserError("give a question's name or --sql, not both")
    if arguments.limit < 1:
        raise UserError(f"--limit is 1 or more, not {arguments.limit}")
    with open_trace(arguments.file) as log:
        expect_engines_own(log, "`kvtheater trace show --json` writes each record")
        if arguments.question or arguments.sql:
            sql = arguments.sql or questions()[arguments.question].sql
            try:
                with LogDatabase(log) as database:
                    answer = database.ask(sql, arguments.limit)
            except QueryError as error:
                raise UserError(str(error)) from error
            (_say_json if arguments.json else _print)(answer)
        else:
            _list(arguments.lang, arguments.json)
        if log.damage:
            sys.stdout.flush()
            say(f"kvtheater: {arguments.file} is damaged: {log.damage}", to=sys.stderr)
            return 1
    return 0


def _list(language: str, as_json: bool) -> None:
    kept = questions().values()
    if as_json:
        say_json([{"id": one.id, "text": getattr(one, language), "sql": one.sql.strip()} for one in kept])
        return
    width = max(len(one.id) for one in kept)
    for one in kept:
        say(f"{one.id:<{width}}  {getattr(one, language)}")


def _say_json(answer: Answer) -> None:
    say_json({"columns": answer.columns, "rows": answer.rows, "is_cut": answer.is_cut})


def _print(answer: Answer) -> None:
    if not answer.rows:
        say("nothing")
        return
    rows = [[*map(_text, row[:-1]), _text(row[-1], None)] for row in answer.rows]
    numbers = [all(isinstance(row[i], int | float | None) for row in answer.rows) for i in range(len(answer.columns))]
    widths = [max(len(name), *(len(row[i]) for row in rows)) for i, name in enumerate(answer.columns)]
    for row in [answer.columns, *rows]:
        cells = zip(row, widths, numbers, strict=True)
        say("  ".join(cell.rjust(width) if number else cell.ljust(width) for cell, width, number in cells).rstrip())
    if answer.is_cut:
        say(f"… and more; --limit is {len(rows)}")


def _text(value: Any, widest: int | None = WIDEST) -> str:
    text = "" if value is None else value.hex() if isinstance(value, bytes) else str(value)
    return text if widest is None or len(text) <= widest else text[: widest - 1] + "…"
