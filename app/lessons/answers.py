"""Messages of a lesson for a page: its items up to the learner's progress, without answers not yet given."""

from __future__ import annotations

from typing import Any, TypedDict

from msgspec import Struct

from app.lessons.allocator.block_manager import BlockMove
from app.lessons.allocator.exercise import Done, Task
from app.lessons.allocator.grading import Graded, Verdict
from app.lessons.lesson import Action, Kind
from app.lessons.prompt_order import Mended, TurnRun
from app.lessons.questions.pictured import Place
from app.lessons.questions.rules import Evidence, Value


class Moment(Struct, frozen=True, kw_only=True):
    """How far the run is: which of the lesson's runs, and how many records of it."""

    run: int
    records: int


class _Told(Struct, frozen=True, kw_only=True, tag_field="kind"):
    index: int  # among the lesson's items
    section: int


class ToldText(_Told, frozen=True, kw_only=True, tag="text"):
    blocks: list[Any]  # a tree, see markup.py; its links to figures have the record that they are read from


class ToldShow(_Told, frozen=True, kw_only=True, tag="show"):
    part: str
    view: dict[str, str]


class ToldRace(Struct, frozen=True, kw_only=True):
    """Race: a prompt under settings of the engine and of sampling, in the lanes of a set."""

    lanes: str
    prompt: str
    config: dict[str, Any]
    sampling: dict[str, Any]
    model: str


class ToldDo(_Told, frozen=True, kw_only=True, tag="do"):
    action: Action
    moment: Moment | None  # after it; None: it is still to be done
    race: ToldRace | None = None


class ToldOption(Struct, frozen=True, kw_only=True):
    """An answer: key and values of its words, its number where the answers are numbers, its place in the picture."""

    text: str
    values: dict[str, Value]
    number: float | None
    place: Place | None


class ToldAsk(_Told, frozen=True, kw_only=True, tag="ask"):
    rule: str
    values: dict[str, Value]
    options: list[ToldOption]
    given: list[int | None]  # the learner's answers so far; None: not sure
    whys: list[str | None]  # for each of them the misconception behind it
    over: bool
    right: int | None  # only when it is over, as what follows
    evidence: Evidence | None
    of: int | None = None  # the sequence that it is about, among several, where its own words do not name it
    again: str | None = None  # what the page calls the question of an earlier lesson that comes back here


class ToldList(Struct, frozen=True, kw_only=True):
    """A learner's list of operations, graded."""

    moves: list[BlockMove]
    verdicts: list[Verdict]
    missing: int
    right: bool


def told_list(moves: list[BlockMove], graded: Graded) -> ToldList:
    return ToldList(moves=moves, verdicts=graded.verdicts, missing=graded.missing, right=graded.right)


class ToldWork(_Told, frozen=True, kw_only=True, tag="work"):
    tasks: list[Task]
    records: int  # of the run that are shown where the work begins
    given: list[ToldList | None]  # the learner's lists so far; None: the solution was requested
    over: bool
    engine: list[Done] | None  # what the engine did; only when it is over


class ToldMend(_Told, frozen=True, kw_only=True, tag="mend"):
    movable: list[str]  # names of parts
    block_size: int
    before: list[TurnRun]
    given: list[Mended | None]  # the learner's mendings so far, as they were run; None: the right one was requested
    over: bool
    right: Mended | None  # only when it is over
    moment: Moment | None  # after the last run


class ToldSandbox(_Told, frozen=True, kw_only=True, tag="sandbox"):
    pass


Told = ToldText | ToldShow | ToldDo | ToldAsk | ToldWork | ToldMend | ToldSandbox


class Progress(Struct, frozen=True, kw_only=True):
    """Where the learner stands."""

    at: int  # the item of the checkpoint; the number of items: the lesson is over
    num_items: int
    num_sections: int
    over: bool
    num_optional: int = 0  # number of trailing optional sections
    asks: list[str] = []  # rules of the questions that have no answer yet: no figure says meanwhile what they ask


class Card(Struct, frozen=True, kw_only=True):
    """A lesson in the list of lessons."""

    id: str
    kind: Kind
    number: int
    minutes: int
    model: str
    title: dict[str, str]
    num_questions: int
    refused: str | None  # why it cannot be played here; None: it can
    recorded: bool = False  # whether its runs are recordings


class LessonFault(TypedDict):
    """A file in the folder of lessons that is none, and why."""

    file: str
    line: int
    sentence: str


class LessonsAnswer(TypedDict):
    """/api/lessons."""

    lessons: list[Card]
    faults: list[LessonFault]


class LessonState(TypedDict):
    """A lesson as far as the learner has come: its items from `first` on."""

    theater: str
    first: int
    items: list[Told]
    progress: Progress


class LessonOpened(LessonState):
    lesson: str
    language: str
    kind: Kind
    title: str
    minutes: int
    words: dict[str, str]  # of its questions


class LessonRetold(LessonOpened):
    """The same of a recorded one, with records of the run that is shown. `num_records`: how far it is shown."""

    run: int
    num_records: int
    header: bytes
    first_record: int
    records: list[bytes]
    captures: list[bytes | None]
