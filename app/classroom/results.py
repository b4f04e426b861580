"""Results of a class: questions, answers, and "lost here" marks, without addresses, passes or connection ids.

A class without names is anonymous: its seats are in random order, without their numbers.
"""

from __future__ import annotations

import random

from msgspec import Struct

from app.classroom.answers import Names
from app.classroom.classroom import Classroom
from app.classroom.polls import Answer, Kind


class QuestionResult(Struct, frozen=True, kw_only=True):
    """Question of a class. `rounds` has, for each round, the answers by index of the student in `students`."""

    number: int
    kind: Kind
    text: str
    options: list[str]
    right: Answer  # None: not set
    asked: float  # seconds since 1970
    rounds: list[dict[int, Answer]]

    def displayed(self, given: Answer) -> Answer:
        """Return an answer for display: an option's text, a number or a token."""
        is_option = self.kind in ("choice", "lesson") and isinstance(given, int) and 0 <= given < len(self.options)
        return self.options[int(given)] if is_option and given is not None else given

    def is_right(self, given: Answer) -> bool | None:
        """Return whether the answer is right; None if the right answer is not set."""
        return None if self.right is None else given == self.right


class ClassResults(Struct, frozen=True, kw_only=True):
    """Results of a class, which may still be running."""

    id: str
    title: str
    names: Names
    began: float  # seconds since 1970
    ended: float | None
    students: list[str]  # names; empty strings if the class has no names
    questions: list[QuestionResult]
    lost: list[list[float]]  # [seconds since the class began, record on stage] of each "lost here" mark


def results_of(found: Classroom) -> ClassResults:
    """Return the current results of a class."""
    seats = found.seats()
    if found.names == "none":
        random.SystemRandom().shuffle(seats)
    places = {seat.key: place for place, seat in enumerate(seats)}
    questions = [
        QuestionResult(
            number=poll.number + 1,
            kind=poll.kind,
            text=poll.wording[0],
            options=poll.wording[1],
            right=poll.right,
            asked=poll.opened_at,
            rounds=[
                {places[key]: given for key, given in list(votes.items()) if key in places} for votes in poll.rounds
            ],
        )
        for poll in list(found.polls)
    ]
    return ClassResults(
        id=found.id,
        title=found.title,
        names=found.names,
        began=found.began,
        ended=found.ended,
        students=["" if found.names == "none" else seat.name for seat in seats],
        questions=questions,
        lost=found.marks(),
    )


def display_names(results: ClassResults, pseudonym: str) -> list[str]:
    """Return the students' names for one export, by index.

    In a class without names these are pseudonyms, made from `pseudonym` with a {number} and shuffled for each export.
    """
    if results.names != "none":
        return list(results.students)
    numbers = list(range(1, len(results.students) + 1))
    random.SystemRandom().shuffle(numbers)
    return [pseudonym.format(number=number) for number in numbers]
