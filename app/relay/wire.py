"""Messages between the engine's process and a web worker: typed msgpack, checked as it is read."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from app.ground.callers import Shown

# From a worker


class Hello(Struct, tag="hello", array_like=True, frozen=True):
    """A worker starts or restarts. The first message of a link."""

    version: str  # of the program


class Identify(Struct, tag="who", array_like=True, frozen=True):
    number: int
    shown: Shown


class Came(Struct, tag="came", array_like=True, frozen=True):
    client: int  # a number of the worker's, never given twice on a link
    shown: Shown
    address: str


class Gone(Struct, tag="gone", array_like=True, frozen=True):
    client: int


class EventPacket(Struct, tag="asked", array_like=True, frozen=True):
    """An event, as its client sent it: a Socket.IO packet in msgpack."""

    client: int
    number: int
    message: bytes


class Has(Struct, tag="has", array_like=True, frozen=True):
    """Clients have acknowledged a packet."""

    number: int
    clients: list[int]


class Wrote(Struct, tag="wrote", array_like=True, frozen=True):
    """A packet was written to all its recipients."""

    reported: int
    seconds: float


Up = Hello | Identify | Came | Gone | EventPacket | Has | Wrote


# From the engine's process


class Welcome(Struct, tag="welcome", array_like=True, frozen=True):
    """Answers a hello. `url`: where the engine's process answers HTTP, on its own machine."""

    url: str


class Refused(Struct, tag="refused", array_like=True, frozen=True):
    """Answers the hello of an invalid worker; a sentence for its operator."""

    why: str


class Bye(Struct, tag="bye", array_like=True, frozen=True):
    """The link is over: restart."""


class Known(Struct, tag="known", array_like=True, frozen=True):
    """Answers `Identify`."""

    number: int
    is_owner: bool
    seat: tuple[str, str] | None  # class and seat of the pass, if it is one


class Say(Struct, tag="say", array_like=True, frozen=True):
    """A packet for clients: these, or all."""

    packet: bytes
    clients: list[int] | None
    number: int | None  # the number under which they acknowledge it
    reported: int | None  # report when it was written, under this number


class Answered(Struct, tag="answered", array_like=True, frozen=True):
    """An event is over; `packet` goes to its client, if there is one."""

    client: int
    number: int
    packet: bytes | None


Down = Welcome | Refused | Bye | Known | Say | Answered


# Both travel in frames


class UpFrame(Struct, array_like=True, frozen=True):
    worker: str
    link: int
    index: int
    messages: list[Up]


class DownFrame(Struct, array_like=True, frozen=True):
    link: int
    index: int
    messages: list[Down]


encode = msgspec.msgpack.Encoder().encode
_up, _down = msgspec.msgpack.Decoder(UpFrame), msgspec.msgpack.Decoder(DownFrame)


def read_up(data: bytes) -> UpFrame | None:
    """Decode a frame; return None for anything else."""
    try:
        return _up.decode(data)
    except msgspec.MsgspecError:
        return None


def read_down(data: bytes) -> DownFrame | None:
    """Decode a frame; return None for anything else."""
    try:
        return _down.decode(data)
    except msgspec.MsgspecError:
        return None
