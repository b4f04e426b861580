"""Client messages about a class: one type per event."""

from __future__ import annotations

import datetime
from typing import Annotated

from msgspec import Meta, field

from app.classroom.answers import Names, Press, Wish
from app.classroom.polls import Answer, Kind, Phase
from app.session.messages import Index, Message, Name

Title = Annotated[str, Meta(max_length=120)]
Question = Annotated[str, Meta(max_length=500)]
Options = Annotated[list[Annotated[str, Meta(min_length=1, max_length=200)]], Meta(max_length=8)]
Seconds = Annotated[float, Meta(ge=5, le=3600)] | None
# URL of the presenter's page without a trailing slash, from which followers' links are derived
Base = Annotated[str, Meta(max_length=400, pattern=r"^https?://[^/?#\s]+(/[^/?#\s]+)*$")]
Language = Annotated[str, Meta(max_length=20)]
View = dict[Annotated[str, Meta(max_length=40)], Annotated[str, Meta(max_length=400)]]


class ClassOpen(Message, frozen=True, kw_only=True):
    base: Base
    title: Title = ""
    names: Names = "optional"


class OfClass(Message, frozen=True, kw_only=True):
    """Base of messages about a class. `class_end` has no other fields."""

    id: Name


class ClassPresent(OfClass, frozen=True, kw_only=True):
    """Sent by a presenter's page after each connect."""

    base: Base
    secret: Annotated[str, Meta(max_length=100)]


class ClassEnter(Message, frozen=True, kw_only=True):
    """Sent by a follower's page after each connect. The browser's pass identifies the seat."""

    language: Language


class ClassCast(Message, frozen=True, kw_only=True):
    """Put the driver's run and view on stage."""

    id: Name
    session: Name | None = field(name="theater")
    view: View


class ClassHold(OfClass, frozen=True, kw_only=True):
    held: bool


class ClassHand(OfClass, frozen=True, kw_only=True):
    seat: Index | None  # None: back to the presenter


class ClassRemote(OfClass, frozen=True, kw_only=True):
    seat: Index
    allowed: bool


class ClassKeep(OfClass, frozen=True, kw_only=True):
    """Store the results of the class until the end of a day."""

    until: datetime.date


class ClassDoors(OfClass, frozen=True, kw_only=True):
    """Set whether new members may take a seat."""

    open: bool


class ClassLabs(OfClass, frozen=True, kw_only=True):
    """Set whether followers may have runs of their own."""

    open: bool


class ClassSendAway(OfClass, frozen=True, kw_only=True):
    seat: Index


class ClassAsk(OfClass, frozen=True, kw_only=True):
    """Ask the class a question. `lesson` asks the open question of the lesson on stage, with its text and options."""

    kind: Kind
    text: Question = ""
    options: Options = field(default_factory=list)
    seconds: Seconds = None


class OfPoll(OfClass, frozen=True, kw_only=True):
    poll: Index


class ClassPoll(OfPoll, frozen=True, kw_only=True):
    """Change a question's phase. `right`: the right answer, if the presenter knows it."""

    to: Phase
    right: Answer = None


class ClassClock(OfPoll, frozen=True, kw_only=True):
    seconds: Seconds


class ClassRename(Message, frozen=True, kw_only=True):
    name: Annotated[str, Meta(max_length=200)]


class ClassAnswer(Message, frozen=True, kw_only=True):
    poll: Index
    round: Annotated[int, Meta(ge=0, le=1)]
    given: Answer


class ClassLost(Message, frozen=True, kw_only=True):
    lost: bool


class ClassWish(Message, frozen=True, kw_only=True):
    wish: Wish | None


class ClassLab(Message, frozen=True, kw_only=True):
    """Request a follower's own run, or give it up."""

    open: bool


class ClassPress(OfClass, frozen=True, kw_only=True):
    key: Press


class ClassLesson(OfClass, frozen=True, kw_only=True):
    """Open a lesson on the presenter's page."""

    lesson: Name
