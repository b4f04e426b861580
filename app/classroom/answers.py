"""Types of the socket messages of a class to all members, to one seat, and to its presenters."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta

from app.classroom.polls import Answer, PollState, Tally

Names = Literal["optional", "none"]
Wish = Literal["drive", "remote"]
Press = Literal["next", "back"]


class LessonAt(TypedDict):
    """Position in the class's lesson. When `at` changes, more items are visible."""

    theater: str
    at: int
    version: int  # incremented at every change


class ClassState(TypedDict):
    """The `class` event: the complete public state of a class, sent at every change."""

    id: str  # of the class
    version: int
    title: str
    names: Names
    driver: int | None  # number of the driving seat; None: the presenter drives
    driver_name: str | None
    held: bool  # followers may not leave the presenter's view
    theater: str | None  # the run on stage: a session or a recording
    view: dict[str, str]  # settings of the view, as in a link
    lesson: LessonAt | None
    poll: Annotated[dict[str, Any], Meta(extra={"fields_of": PollState})] | None
    labs: bool  # whether followers may have runs of their own
    over: bool


class OwnAnswer(TypedDict):
    """Answers of a seat to a question, by round."""

    poll: int
    theater: str | None  # of a lesson's question: the lesson's session
    item: int | None  # of the lesson
    given: list[Answer]  # None: not sure, or no answer
    has: list[bool]  # whether the seat answered in the round


class Mine(TypedDict):
    """State of a seat, for its own page."""

    seat: int
    name: str
    answers: list[OwnAnswer]
    remote: bool
    drives: bool
    lost: bool
    wish: Wish | None
    lab: str | None  # its own run
    queue: int | None  # number of seats before it in the queue; None: not in the queue


class ClassEntered(TypedDict):
    """State for a follower's page."""

    state: ClassState
    mine: Mine
    guest: bool  # whether the client may use the server only for the class


class SeatState(TypedDict):
    """A seat, for the presenter."""

    seat: int
    name: str
    here: bool
    lost: bool
    remote: bool
    wish: Wish | None
    answered: bool  # the open question, in the current round
    lab: bool


class OriginCount(TypedDict):
    """Number of seats by origin, for the presenter."""

    origin: str  # an address without its last part: 192.168.1.x
    seats: int
    here: int  # number of connected seats among them


class LabsWhy(TypedDict):
    """Reason for the limit of labs. `stage`: no live run has been on stage yet."""

    by: Literal["stage", "memory", "speed", "unmeasured", "most"]
    lab_bytes: int  # of one lab: pool, log and overhead
    free_bytes: int  # free memory before the first lab
    step_seconds: float | None  # of a decode step on this machine; None: not measured yet


class ClassDesk(TypedDict):
    """The `class_desk` event, sent only to the presenter's pages."""

    id: str
    open: bool  # whether newcomers may take a seat
    origins: list[OriginCount]  # origins with the most seats
    seats: list[SeatState]
    lost: list[list[float]]  # [seconds since the class began, shown record] of each mark
    seconds: float  # since the class began
    asked: int  # number of questions
    answered: int  # number of answers to the open question in the current round
    tallies: list[Annotated[dict[str, Any], Meta(extra={"fields_of": Tally})]]  # of the last question, by round
    labs: int  # runs of followers, now
    labs_most: int
    labs_why: LabsWhy  # reason for this limit
    waiting: int  # seats in the queue for a lab
    kept_until: str | None  # date until which the class is stored; None: not stored


class Door(TypedDict):
    """Address under which other devices may reach the server."""

    url: str  # with the class's key, as in the QR code
    shown: str  # address of the page where the code is entered
    size: int  # of the QR code, in modules, without its margin
    path: str  # its dark modules as an SVG path, a module being 1 × 1


class Presenting(TypedDict):
    """State for a presenter's page."""

    state: ClassState
    desk: ClassDesk
    code: str
    doors: list[Door]  # most likely first; empty: other devices cannot reach this server
    join: str  # path of the join link, for clients on this machine


class ClassOpened(TypedDict):
    """A new class. `secret` authenticates its presenter and is sent only once."""

    secret: str
    presenting: Presenting


class ClassPressed(TypedDict):
    """The `class_pressed` event, sent to the driver's pages: a key of a remote, or a lesson the presenter selected."""

    id: str
    key: Press | None
    lesson: str | None


class ClassLeft(TypedDict):
    """The `class_left` event, sent to a member that was removed."""

    id: str


class StoredClass(TypedDict):
    """A class stored until a date."""

    id: str
    title: str
    names: Literal["optional", "none"]
    began: float  # seconds since 1970
    ended: float | None  # None: stored while it was running
    until: str  # the last day, as in 2027-01-31
    students: int
    questions: int


class StoredClassesAnswer(TypedDict):
    """Reply of `/api/classes`."""

    classes: list[StoredClass]
    can_keep: bool
