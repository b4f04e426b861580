"""Types of the server's socket messages: acknowledgements of requests, and events that the server sends by itself.

The page's types are generated from these (`python -m tools.wire_types`). docs/reference/protocol.md describes each
field.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from app.session.closing import Cause
from engine.trace.records import Objection

Ended = Literal[
    "stopped",  # on request
    "reset",  # the session was reset
    "closed",  # the session or its server was closed
    "write_failed",  # the disk was full or unavailable; see `ended_detail`
    "interrupted",  # the server was killed while recording
    "imported",  # the file was uploaded, or found in the folder
]

# Status of a run


class RecordingStatus(TypedDict):
    """The last recording of a session."""

    id: str
    name: str
    ended: Ended | None  # None: still recording
    ended_detail: str


class ForkStatus(TypedDict):
    """Origin of a forked epoch, and its progress."""

    source: str  # a session or recording
    epoch: int  # of the source
    at: int
    change: str | None  # kind of the change
    expected: int  # estimated number of records at the end
    forked: bool
    active: bool
    left_out: list[str]


class ApiStatus(TypedDict):
    """API clients of a session."""

    waiting: dict[str, int]  # number of queued requests by client, in scheduling order
    active: int  # unfinished requests, including those queued or running in the engine


class Status(TypedDict):
    """State of a session or recording: the `status` event."""

    theater: str
    epoch: int
    mode: Literal["paused", "running", "recording"]
    speed: float  # steps a second; 0: as fast as possible
    num_records: int
    unfinished: int  # sequences
    coming: list[int]  # steps until the submission of each delayed prompt
    viewers: int
    error: str | None
    said: dict[str, str]  # the error in other languages, by language code
    objection: Annotated[dict[str, Any], Meta(extra={"fields_of": Objection})] | None
    notice: str | None
    fork: ForkStatus | None
    recording: RecordingStatus | None
    api: ApiStatus | None  # None: the session serves no API requests


# Events that the server sends by itself


class Records(TypedDict):
    """The `records` event."""

    theater: str
    epoch: int
    first: int
    records: list[bytes]
    captures: list[bytes | None]


class Reset(TypedDict):
    """The `reset` event."""

    theater: str
    epoch: int
    header: bytes
    num_records: int


class Large(TypedDict):
    """The `large` event: the run has more records than a page loads."""

    theater: str
    epoch: int
    num_records: int


class Closed(TypedDict):
    """The `closed` event."""

    theater: str
    cause: Cause
    detail: str  # the exception's message, if the cause is a server error
    reason: str  # cause and detail in one sentence


# Acknowledgements, without `ok`


class Nothing(TypedDict):
    """Empty answer."""


Joined = TypedDict(  # `from` is a keyword of Python
    "Joined",
    {
        "theater": str,
        "epoch": int,
        "header": bytes,
        "num_records": int,
        "from": int,
        "status": Status,
        "large": bool,  # records are not sent; the page requests those that it shows (`/api/theaters/<id>/survey`)
    },
)


class JoinedRecording(Joined):
    """Answer of `join` to a viewer of a recording."""

    recording: dict[str, Any]  # the recording's entry in the library


class SubmittedRequest(TypedDict):
    """Request of a submission."""

    request_id: str
    seq_id: int
    num_prompt_tokens: int


class Submitted(TypedDict):
    requests: list[SubmittedRequest]
    num_records: int


class Aborted(TypedDict):
    num_records: int


class StatusAnswer(TypedDict):
    status: Status


class Begun(TypedDict):
    """A new log."""

    epoch: int
    header: bytes


class Recomputed(TypedDict):
    epoch: int
    token_ids: list[int]
    arrays: bytes | list[bytes]  # a LayerCapture of the trace; a list with one per layer if no layer was named
    residual: NotRequired[ResidualAnswer]  # if requested


class Projected(TypedDict):
    projection: bytes  # a Projection of the trace


class ResidualAnswer(TypedDict):
    stream: bytes  # a ResidualStream of the trace
    linear_flops: int  # of this token in one layer
    attention_flops: int


class ForkSource(TypedDict):
    theater: str
    epoch: int
    at: int


class Forked(TypedDict):
    theater: str
    epoch: int
    header: bytes
    num_records: int
    status: Status
    source: ForkSource


class RecordRange(TypedDict):
    """Reply to `read`."""

    epoch: int
    first: int
    records: list[bytes]
    captures: list[bytes | None]


class Tokenized(TypedDict):
    token_ids: list[int]
    token_bytes: list[bytes]
    text: str  # the model's input, after the chat template
