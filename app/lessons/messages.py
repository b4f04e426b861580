"""Messages of clients about lessons."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from app.lessons.allocator.block_manager import BlockMove
from app.lessons.prompt_order import Mending
from app.session.messages import Index, Message, Name, OfSession

# an option, a list of operations or of moves; None: not sure
Given = Index | Annotated[list[BlockMove], Meta(max_length=256)] | Mending | None
Answers = Annotated[dict[str, list[Given]], Meta(max_length=1000)]  # by item, as they were given


class Earlier(Struct, frozen=True, kw_only=True):
    """A question of an earlier lesson."""

    lesson: Name
    item: Index


class LessonOpen(Message, frozen=True, kw_only=True):
    """Begin a lesson, or go on with it: on the session that has it, or on a new one as far as the learner had come."""

    lesson: Name
    language: Annotated[str, Meta(max_length=20)]
    session: Name | None = field(name="theater", default=None)
    at: Annotated[int, Meta(ge=-1, le=10_000)] = -1  # the item that the learner stood at; -1: the beginning
    answers: Answers = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)  # settings that the learner has changed
    again: Annotated[list[Earlier], Meta(max_length=8)] = field(default_factory=list)  # that were not answered right


class LessonLook(OfSession, frozen=True, kw_only=True):
    """A lesson that another client drives."""

    language: Annotated[str, Meta(max_length=20)]
    since: Index = 0  # the first item to send


class LessonGo(OfSession, frozen=True, kw_only=True):
    item: Index  # that the learner stands before


class LessonAnswer(OfSession, frozen=True, kw_only=True):
    item: Index
    given: Given


class LessonRetell(Message, frozen=True, kw_only=True):
    """A recorded lesson as far as the learner has come: the server remembers nothing of the way."""

    lesson: Name
    language: Annotated[str, Meta(max_length=20)]
    at: Annotated[int, Meta(ge=-1, le=10_000)] = -1  # the item to go on to, as far as the questions on the way allow
    answers: Answers = field(default_factory=dict)
    since: Index = 0  # the first item to send
    run: Index | None = None  # of which the page has records
    first: Index = 0  # how many
