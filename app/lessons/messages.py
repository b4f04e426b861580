"""Messages of clients about lessons."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from app.lessons.allocator.block_manager import BlockMove
from app.lessons.prompt_order import Mending
from app.session.messages import Index, Message, Name, OfSession

# an option, a list of operations or of moves; None: not sure
LearnerAnswer = Index | Annotated[list[BlockMove], Meta(max_length=256)] | Mending | None
Answers = Annotated[dict[str, list[LearnerAnswer]], Meta(max_length=1000)]  # by item, in order


class Earlier(Struct, frozen=True, kw_only=True):
    """Question of an earlier lesson."""

    lesson: Name
    item: Index


class LessonOpen(Message, frozen=True, kw_only=True):
    """Start or resume a lesson, in its session or in a new one with the learner's progress."""

    lesson: Name
    language: Annotated[str, Meta(max_length=20)]
    session: Name | None = field(name="theater", default=None)
    at: Annotated[int, Meta(ge=-1, le=10_000)] = -1  # the learner's item; -1: the beginning
    answers: Answers = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)  # settings changed by the learner
    again: Annotated[list[Earlier], Meta(max_length=8)] = field(default_factory=list)  # questions to repeat


class LessonLook(OfSession, frozen=True, kw_only=True):
    """Read the state of a lesson that another client drives."""

    language: Annotated[str, Meta(max_length=20)]
    since: Index = 0  # first item to send


class LessonGo(OfSession, frozen=True, kw_only=True):
    item: Index  # the learner's checkpoint


class LessonAnswer(OfSession, frozen=True, kw_only=True):
    item: Index
    given: LearnerAnswer


class LessonRetell(Message, frozen=True, kw_only=True):
    """Read a recorded lesson at the learner's progress, which the server does not store."""

    lesson: Name
    language: Annotated[str, Meta(max_length=20)]
    at: Annotated[int, Meta(ge=-1, le=10_000)] = -1  # item to go to; an open question before it stops there
    answers: Answers = field(default_factory=dict)
    since: Index = 0  # first item to send
    run: Index | None = None  # run of which the page already has records
    first: Index = 0  # number of these records
