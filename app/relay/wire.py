"""Messages between the engine's process and a web worker: typed msgpack, validated when decoded."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from app.ground.callers import Shown

# from a worker


class Hello(Struct, tag="hello", array_like=True, frozen=True):
    """First message of a link, which a worker starts or restarts."""

    version: str  # of the worker's program


class Identify(Struct, tag="who", array_like=True, frozen=True):
    """Requests the identity of credentials."""

    number: int
    shown: Shown


class Came(Struct, tag="came", array_like=True, frozen=True):
    """A client connected."""

    client: int  # number chosen by the worker, unique on a link
    shown: Shown
    address: str


class Gone(Struct, tag="gone", array_like=True, frozen=True):
    """A client disconnected."""

    client: int


class EventPacket(Struct, tag="asked", array_like=True, frozen=True):
    """Event of a client, as received: a Socket.IO packet in msgpack."""

    client: int
    number: int
    message: bytes


class Has(Struct, tag="has", array_like=True, frozen=True):
    """Clients acknowledged a packet."""

    number: int
    clients: list[int]


class Wrote(Struct, tag="wrote", array_like=True, frozen=True):
    """A packet was written to all its recipients."""

    reported: int
    seconds: float


Up = Hello | Identify | Came | Gone | EventPacket | Has | Wrote


# from the engine's process


class Welcome(Struct, tag="welcome", array_like=True, frozen=True):
    """Accepts a worker. `url`: HTTP address of the engine's process, on its own machine."""

    url: str


class Refused(Struct, tag="refused", array_like=True, frozen=True):
    """Rejects a worker. `why`: sentence for its operator."""

    why: str


class Bye(Struct, tag="bye", array_like=True, frozen=True):
    """Ends a link, so that the worker restarts it."""


class Known(Struct, tag="known", array_like=True, frozen=True):
    """Reply to `Identify`."""

    number: int
    is_owner: bool
    seat: tuple[str, str] | None  # class and seat of a valid pass


class Say(Struct, tag="say", array_like=True, frozen=True):
    """Packet for clients. `clients` None: for all."""

    packet: bytes
    clients: list[int] | None
    number: int | None  # number of the acknowledgement; None: not requested
    reported: int | None  # number under which to report that the packet was written; None: not requested


class Answered(Struct, tag="answered", array_like=True, frozen=True):
    """An event was handled. `packet`: acknowledgement for its client; None: not requested."""

    client: int
    number: int
    packet: bytes | None


Down = Welcome | Refused | Bye | Known | Say | Answered


# frames


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
    """Decode a frame of a worker; return None for invalid data."""
    try:
        return _up.decode(data)
    except msgspec.MsgspecError:
        return None


def read_down(data: bytes) -> DownFrame | None:
    """Decode a frame of the engine's process; return None for invalid data."""
    try:
        return _down.decode(data)
    except msgspec.MsgspecError:
        return None
