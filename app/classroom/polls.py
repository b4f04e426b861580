"""Poll of a class: answers in up to two rounds, and the published results.

    open → talk → again → closed → shown        talk and again may be skipped

Before the phase "shown", only the presenter's pages get the counts of answers.
"""

from __future__ import annotations

import math
import time
import unicodedata
from collections import Counter
from typing import Literal, NamedTuple

from msgspec import Struct, field

from app.classroom.refusing import refusal

Kind = Literal["choice", "number", "slot", "token", "lesson"]
Phase = Literal["open", "talk", "again", "closed", "shown"]
Answer = int | float | str | None  # index of an option, a number, a slot or a token; None: not sure
NEXT_PHASES: dict[Phase, tuple[Phase, ...]] = {
    "open": ("talk", "closed", "shown"),
    "talk": ("again", "closed", "shown"),
    "again": ("closed", "shown"),
    "closed": ("again", "shown"),
    "shown": (),
}
MAX_VALUES = 24  # most frequent answers that a tally lists; the others are counted together
MAX_CHARACTERS = 64  # of a token
LARGEST = 1e15


class Counted(Struct, frozen=True, kw_only=True):
    """Number of equal answers."""

    value: Answer
    count: int


class Tally(Struct, frozen=True, kw_only=True):
    """Tally of a round: options in their order, other answers the most frequent first."""

    answers: list[Counted]
    unsure: int
    others: int  # answers that are not listed


class PollState(Struct, frozen=True, kw_only=True):
    """Public state of a poll."""

    id: int
    kind: Kind
    text: str
    options: list[str]
    session: str | None = field(name="theater")  # of a lesson's question: the lesson's session
    item: int | None  # of the lesson
    phase: Phase
    round: int  # current or last round: 0 or 1
    seconds: float | None  # time limit
    left: float | None  # seconds remaining when this was sent
    tallies: list[Tally]  # of both rounds, once shown
    right: Answer  # once shown, if known


class LessonQuestion(NamedTuple):
    """Question of a lesson, with its text and options for the class results."""

    session: str
    item: int
    right: int  # index of the right option; not sent before the phase "shown"
    text: str
    options: list[str]


class Poll:
    """Poll of a class. Its methods are called under the class's lock."""

    def __init__(
        self,
        number: int,
        kind: Kind,
        text: str,
        options: list[str],
        lesson: LessonQuestion | None,
        seconds: float | None,
    ) -> None:
        """Open a poll. The texts of a `lesson` question replace `text` and `options`."""
        self.number, self.kind, self.text, self.options = number, kind, text, options
        self.lesson = lesson
        self.seconds = seconds
        self.phase: Phase = "open"
        self.rounds: list[dict[str, Answer]] = [{}]  # by seat
        self.right: Answer = None
        self.opened_at = time.time()
        self._ends_at: float | None = None
        self._start_clock()

    @property
    def num_options(self) -> int:
        return len(self.wording[1])

    @property
    def wording(self) -> tuple[str, list[str]]:
        """Question and options."""
        return (self.lesson.text, self.lesson.options) if self.lesson else (self.text, self.options)

    @property
    def takes_answers(self) -> bool:
        return self.phase in ("open", "again")

    def answer(self, seat: str, in_round: int, given: Answer) -> None:
        """Record an answer; it can be changed while the round is open.

        Raises:
            AppError: `refused` if the round is over, `bad_request` for an invalid answer.
        """
        if not self.takes_answers or in_round != len(self.rounds) - 1:
            raise refusal("refused", "poll.round_over")
        self.rounds[-1][seat] = self._checked(given)

    def set_phase(self, to: Phase, right: Answer = None) -> None:
        """Change the phase.

        Raises:
            AppError: `refused` if `to` cannot follow the current phase.
        """
        if to not in NEXT_PHASES[self.phase]:
            raise refusal("refused", "poll.phase", phase=self.phase, to=to)
        if to == "again":
            if len(self.rounds) > 1:
                raise refusal("refused", "poll.rounds")
            self.rounds.append({})
        if to == "shown":
            self.right = None if right is None else self._checked(right)
        self.phase = to
        self._start_clock()

    def clock(self, seconds: float | None) -> None:
        """Set the remaining seconds; None: no time limit. The poll is not closed when the time is up."""
        self.seconds = seconds
        self._start_clock()

    def state(self) -> PollState:
        shown = self.phase == "shown"
        left = None if self._ends_at is None or not self.takes_answers else max(0.0, self._ends_at - time.monotonic())
        return PollState(
            id=self.number,
            kind=self.kind,
            text=self.text,
            options=self.options,
            session=self.lesson.session if self.lesson else None,
            item=self.lesson.item if self.lesson else None,
            phase=self.phase,
            round=len(self.rounds) - 1,
            seconds=self.seconds,
            left=left,
            tallies=self.tallies() if shown else [],
            right=self.right if shown else None,
        )

    def tallies(self) -> list[Tally]:
        return [self._tally(votes) for votes in self.rounds]

    def _tally(self, votes: dict[str, Answer]) -> Tally:
        given = Counter(value for value in votes.values() if value is not None)
        if self.kind in ("choice", "lesson"):
            listed: list[tuple[Answer, int]] = [(i, given[i]) for i in range(self.num_options)]
        else:
            listed = list(given.most_common(MAX_VALUES))
        return Tally(
            answers=[Counted(value=value, count=count) for value, count in listed],
            unsure=sum(value is None for value in votes.values()),
            others=sum(given.values()) - sum(count for _, count in listed),
        )

    def _start_clock(self) -> None:
        runs = self.seconds is not None and self.takes_answers
        self._ends_at = time.monotonic() + (self.seconds or 0.0) if runs else None

    def _checked(self, given: Answer) -> Answer:
        if given is None:
            return None
        match self.kind:
            case "choice" | "lesson":
                if isinstance(given, int) and 0 <= given < self.num_options:
                    return given
                raise refusal("bad_request", "poll.options", last=self.num_options - 1)
            case "slot":
                if isinstance(given, int) and 0 <= given <= 2**31:
                    return given
                raise refusal("bad_request", "poll.slot")
            case "number":
                if isinstance(given, int | float) and math.isfinite(given) and abs(given) <= LARGEST:
                    return float(given)
                raise refusal("bad_request", "poll.number", most=f"{LARGEST:g}")
            case "token":
                text = unicodedata.normalize("NFC", given).strip() if isinstance(given, str) else ""
                if 0 < len(text) <= MAX_CHARACTERS and text.isprintable():
                    return text
                raise refusal("bad_request", "poll.token", n=MAX_CHARACTERS)
