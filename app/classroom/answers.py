"""Types of the socket messages of a class: to all members, to one seat, to its presenters."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta

from app.classroom.polls import Answer, PollState, Tally

Names = Literal["optional", "none"]
Wish = Literal["drive", "remote"]
Press = Literal["next", "back"]


class LessonAt(TypedDict):
    """Position in the class's lesson; a new `at` means that more items are visible."""

    theater: str
    at: int
    version: int  # counts every change


class ClassState(TypedDict):
    """The `class` event: the public state of a class, sent whole at every change."""

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
    given: list[Answer]
    has: list[bool]  # whether it answered; None in `given` may be the answer "not sure"


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
    queue: int | None  # number of seats before it in the queue; None: it does not wait


class ClassEntered(TypedDict):
    """State for a follower's page."""

    state: ClassState
    mine: Mine
    guest: bool  # whether the client may use the server for nothing but the class


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
    here: int  # of them, connected


class LabsWhy(TypedDict):
    """Reason for the limit of labs. `stage`: no live run was on stage yet."""

    by: Literal["stage", "memory", "speed", "unmeasured", "most"]
    lab_bytes: int  # of one lab: pool, log and the rest
    free_bytes: int  # free memory before the first lab
    step_seconds: float | None  # of a decode step on this machine; None: not measured yet


class ClassDesk(TypedDict):
    """The `class_desk` event, to the presenter's pages alone."""

    id: str
    open: bool  # whether newcomers may take a seat
    origins: list[OriginCount]  # those with the most seats
    seats: list[SeatState]
    lost: list[list[float]]  # [seconds since the class began, shown record] of each mark
    seconds: float  # since it began
    asked: int  # questions
    answered: int  # the open question, in the current round
    tallies: list[Annotated[dict[str, Any], Meta(extra={"fields_of": Tally})]]  # of the last question, by round
    labs: int  # runs of followers, now
    labs_most: int
    labs_why: LabsWhy  # reason for this limit
    waiting: int  # for a lab
    kept_until: str | None  # a date; None: nothing of it is stored


class Door(TypedDict):
    """Address under which other devices may reach the server."""

    url: str  # with the class's key, as in the QR code
    shown: str  # address at which a code is typed
    size: int  # of the QR code, in modules, without its margin
    path: str  # its dark modules as an SVG path, a module being 1 × 1


class Presenting(TypedDict):
    """State for a presenter's page."""

    state: ClassState
    desk: ClassDesk
    code: str
    doors: list[Door]  # the likeliest first; empty: other devices cannot reach this server
    join: str  # the path of a door, for clients on this machine


class ClassOpened(TypedDict):
    """A new class. `secret`: of its presenter; sent only once."""

    secret: str
    presenting: Presenting


class ClassPressed(TypedDict):
    """The `class_pressed` event, to the pages that drive: a remote's key, or a lesson from the presenter's desk."""

    id: str
    key: Press | None
    lesson: str | None


class ClassLeft(TypedDict):
    """The `class_left` event, to a member that was removed."""

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
    """/api/classes."""

    classes: list[StoredClass]
    can_keep: bool
