"""Messages of a lesson for a page: its items up to the learner's progress, without the answers to open questions."""

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
    """Progress of the lesson: index of its run, and number of records shown."""

    run: int
    records: int


class _PageItem(Struct, frozen=True, kw_only=True, tag_field="kind"):
    index: int  # index among the lesson's items
    section: int


class TextItem(_PageItem, frozen=True, kw_only=True, tag="text"):
    blocks: list[Any]  # tree as of markup.py; links to figures have the index of their record


class ShowItem(_PageItem, frozen=True, kw_only=True, tag="show"):
    part: str
    view: dict[str, str]


class RaceSetup(Struct, frozen=True, kw_only=True):
    """Race of a prompt in a set of lanes, with engine and sampling settings."""

    lanes: str
    prompt: str
    config: dict[str, Any]
    sampling: dict[str, Any]
    model: str


class DoItem(_PageItem, frozen=True, kw_only=True, tag="do"):
    action: Action
    moment: Moment | None  # moment after the action; None: not performed yet
    race: RaceSetup | None = None


class AskOption(Struct, frozen=True, kw_only=True):
    """Answer option: key and values of its text, its number if it is numeric, and its position in the picture."""

    text: str
    values: dict[str, Value]
    number: float | None
    place: Place | None


class AskItem(_PageItem, frozen=True, kw_only=True, tag="ask"):
    rule: str
    values: dict[str, Value]
    options: list[AskOption]
    given: list[int | None]  # the learner's answers so far; None: not sure
    whys: list[str | None]  # key of the misconception behind each given answer
    over: bool
    right: int | None  # None until answered, like the following fields
    evidence: Evidence | None
    of: int | None = None  # sequence of the question, if there are several and the text does not name it
    again: str | None = None  # the page's id of a repeated question of an earlier lesson


class GradedList(Struct, frozen=True, kw_only=True):
    """Graded list of a learner's operations."""

    moves: list[BlockMove]
    verdicts: list[Verdict]
    missing: int
    right: bool


def graded_list(moves: list[BlockMove], graded: Graded) -> GradedList:
    return GradedList(moves=moves, verdicts=graded.verdicts, missing=graded.missing, right=graded.right)


class WorkItem(_PageItem, frozen=True, kw_only=True, tag="work"):
    tasks: list[Task]
    records: int  # records shown at the beginning of the exercise
    given: list[GradedList | None]  # the learner's lists so far; None: the solution was requested
    over: bool
    engine: list[Done] | None  # the engine's operations; None until answered


class MendItem(_PageItem, frozen=True, kw_only=True, tag="mend"):
    movable: list[str]  # names of parts
    block_size: int
    before: list[TurnRun]
    given: list[Mended | None]  # the learner's attempts so far, with their runs; None: the solution was requested
    over: bool
    right: Mended | None  # None until answered
    moment: Moment | None  # after the last run


class SandboxItem(_PageItem, frozen=True, kw_only=True, tag="sandbox"):
    pass


PageItem = TextItem | ShowItem | DoItem | AskItem | WorkItem | MendItem | SandboxItem


class Progress(Struct, frozen=True, kw_only=True):
    """Progress of the learner."""

    at: int  # item of the checkpoint; `num_items` when the lesson is over
    num_items: int
    num_sections: int
    over: bool
    num_optional: int = 0  # number of trailing optional sections
    asks: list[str] = []  # rules of unanswered questions, whose figures must be hidden


class Card(Struct, frozen=True, kw_only=True):
    """List entry of a lesson."""

    id: str
    kind: Kind
    number: int
    minutes: int
    model: str
    title: dict[str, str]
    num_questions: int
    refused: str | None  # reason why the lesson cannot be played on this server; None: it can
    recorded: bool = False  # whether the runs are recordings


class LessonFault(TypedDict):
    """Invalid file in the folder of lessons, and its error."""

    file: str
    line: int
    sentence: str


class LessonsAnswer(TypedDict):
    """Response of /api/lessons."""

    lessons: list[Card]
    faults: list[LessonFault]


class LessonState(TypedDict):
    """Lesson up to the learner's progress: its items from `first` on."""

    theater: str
    first: int
    items: list[PageItem]
    progress: Progress


class LessonOpened(LessonState):
    lesson: str
    language: str
    kind: Kind
    title: str
    minutes: int
    words: dict[str, str]  # texts of the questions


class LessonReplayed(LessonOpened):
    """State of a recorded lesson, with records of the current run. `num_records`: number of visible records."""

    run: int
    num_records: int
    header: bytes
    first_record: int
    records: list[bytes]
    captures: list[bytes | None]
