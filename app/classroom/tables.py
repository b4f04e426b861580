"""Class results as CSV tables: answers by student, and answers by question.

The encoding is UTF-8 with a byte order mark, without which Excel misreads Chinese. A text that a spreadsheet would
interpret as a formula is prefixed with an apostrophe (OWASP, "CSV Injection"); numbers are not changed.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from app.classroom.polls import Answer
from app.classroom.results import ClassResults, QuestionResult, display_names
from engine.trace.export.tables import escape_formula

_WORDS: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "results.json").read_text(encoding="utf-8"))


def words_in(language: str) -> dict[str, str]:
    """Return the texts in a language, or in English if it is not available."""
    return _WORDS.get(language.partition("-")[0], _WORDS["en"])


Cell = str | int | float | None


def answers_csv(results: ClassResults, language: str) -> bytes:
    """Return a row for each student, question and round, including students without an answer."""
    words = words_in(language)
    names = display_names(results, words["pseudonym"])
    places = list(range(len(names)))
    if results.names == "none":
        places.sort(key=lambda place: (len(names[place]), names[place]))
    rows: list[list[Cell]] = []
    for place in places:
        for question in results.questions:
            for number, votes in enumerate(question.rounds, 1):
                about: list[Cell] = [names[place], question.number, words[f"kind.{question.kind}"], question.text]
                if place not in votes:
                    rows.append([*about, number, None, None])
                    continue
                given = votes[place]
                rows.append([*about, number, _shown(question, given, words), _mark(question.is_right(given))])
    head = ("student", "question", "kind", "text", "round", "answer", "right")
    return _csv([words[f"column.{name}"] for name in head], rows)


def questions_csv(results: ClassResults, language: str) -> bytes:
    """Return a row for each answer to each question in each round: its count and its share of all answers."""
    words = words_in(language)
    rows: list[list[Cell]] = []
    for question in results.questions:
        for number, votes in enumerate(question.rounds, 1):
            for given, count in counted(question, votes):
                share = round(count / len(votes), 4) if votes else None
                rows.append(
                    [
                        question.number,
                        words[f"kind.{question.kind}"],
                        question.text,
                        number,
                        _shown(question, given, words),
                        count,
                        share,
                        _mark(question.is_right(given)),
                        len(votes),
                        len(results.students),
                    ]
                )
    head = ("question", "kind", "text", "round", "answer", "count", "share", "right", "answered", "students")
    return _csv([words[f"column.{name}"] for name in head], rows)


def counted(question: QuestionResult, votes: dict[int, Answer]) -> list[tuple[Answer, int]]:
    """Return answers with their counts: options in their order, other answers most frequent first, "not sure" last."""
    given = Counter(value for value in votes.values() if value is not None)
    is_choice = question.kind in ("choice", "lesson")
    listed: list[tuple[Answer, int]] = (
        [(option, given[option]) for option in range(len(question.options))] if is_choice else list(given.most_common())
    )
    return [*listed, (None, sum(value is None for value in votes.values()))]


def _shown(question: QuestionResult, given: Answer, words: dict[str, str]) -> Cell:
    return words["unsure"] if given is None else question.displayed(given)


def _mark(is_right: bool | None) -> Cell:
    return None if is_right is None else int(is_right)


def _csv(head: Iterable[Cell], rows: Iterable[list[Cell]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([_cell(cell) for cell in head])
    writer.writerows([_cell(cell) for cell in row] for row in rows)
    return text.getvalue().encode("utf-8-sig")


def _cell(cell: Cell) -> Cell:
    return int(cell) if isinstance(cell, float) and cell.is_integer() else escape_formula(cell)
