"""Types of the server's socket messages: acknowledgements, and events without a request.

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
    ended: Ended | None  # None: it grows
    ended_detail: str


class ForkStatus(TypedDict):
    """Origin of a forked epoch, and its progress."""

    source: str  # a session or recording
    epoch: int  # of the source
    at: int
    change: str | None  # its kind
    expected: int  # records in the end, roughly
    forked: bool
    active: bool
    left_out: list[str]


class ApiStatus(TypedDict):
    """API clients of a session."""

    waiting: dict[str, int]  # requests by client, in the order of their turns
    active: int  # requests that are not over, those that wait in the engine's queue or run included


class Status(TypedDict):
    """State of a session or recording: the `status` event."""

    theater: str
    epoch: int
    mode: Literal["paused", "running", "recording"]
    speed: float  # steps a second; 0 = as fast as it goes
    num_records: int
    unfinished: int  # sequences
    coming: list[int]  # of each later prompt: steps until its submission
    viewers: int
    error: str | None
    said: dict[str, str]  # the error in other languages, by their codes
    objection: Annotated[dict[str, Any], Meta(extra={"fields_of": Objection})] | None
    notice: str | None
    fork: ForkStatus | None
    recording: RecordingStatus | None
    api: ApiStatus | None  # None: it takes no requests of the API


# Events without a request


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
    """The `large` event: the run is longer than a page keeps."""

    theater: str
    epoch: int
    num_records: int


class Closed(TypedDict):
    """The `closed` event."""

    theater: str
    cause: Cause
    detail: str  # a mistake of the server's: what went wrong
    reason: str  # both in one sentence


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
        "large": bool,  # its records are not sent: the page requests what it shows (`/api/theaters/<id>/survey`)
    },
)


class JoinedRecording(Joined):
    """Answer of `join` to a viewer of a recording."""

    recording: dict[str, Any]  # its entry


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
    arrays: bytes | list[bytes]  # a LayerCapture of the trace; of each layer, where none was named
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
    text: str  # as the model will see it
