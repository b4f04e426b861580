"""Messages between the server and a web worker: typed msgpack, validated when decoded."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from app.ground.callers import Credentials

# from a worker


class Hello(Struct, tag="hello", array_like=True, frozen=True):
    """First message of a link, which a worker starts or restarts."""

    version: str  # of the worker's program


class Identify(Struct, tag="who", array_like=True, frozen=True):
    """Requests the identity of credentials."""

    number: int
    credentials: Credentials


class ClientConnected(Struct, tag="came", array_like=True, frozen=True):
    """A client connected."""

    client: int  # number chosen by the worker, unique on a link
    credentials: Credentials
    address: str


class ClientDisconnected(Struct, tag="gone", array_like=True, frozen=True):
    """A client disconnected."""

    client: int


class EventPacket(Struct, tag="asked", array_like=True, frozen=True):
    """Event of a client, as received: a Socket.IO packet in msgpack."""

    client: int
    number: int
    message: bytes


class Acknowledgement(Struct, tag="has", array_like=True, frozen=True):
    """Clients acknowledged a packet."""

    number: int
    clients: list[int]


class WriteReport(Struct, tag="wrote", array_like=True, frozen=True):
    """A packet was written to all its recipients."""

    report: int
    seconds: float


Up = Hello | Identify | ClientConnected | ClientDisconnected | EventPacket | Acknowledgement | WriteReport


# from the server


class Welcome(Struct, tag="welcome", array_like=True, frozen=True):
    """Accepts a worker. `url`: HTTP address of the server, valid on the server's machine."""

    url: str


class Refused(Struct, tag="refused", array_like=True, frozen=True):
    """Rejects a worker. `reason`: sentence for the worker's operator."""

    reason: str


class Bye(Struct, tag="bye", array_like=True, frozen=True):
    """Ends a link, so that the worker restarts it."""


class Identity(Struct, tag="known", array_like=True, frozen=True):
    """Reply to `Identify`."""

    number: int
    is_owner: bool
    seat: tuple[str, str] | None  # class and seat of a valid pass


class Delivery(Struct, tag="say", array_like=True, frozen=True):
    """Packet for clients. `clients` None: for all."""

    packet: bytes
    clients: list[int] | None
    number: int | None  # number of the acknowledgement; None: not requested
    report: int | None  # number of the `WriteReport`; None: not requested


class EventHandled(Struct, tag="answered", array_like=True, frozen=True):
    """An event was handled. `packet`: acknowledgement for its client; None: not requested."""

    client: int
    number: int
    packet: bytes | None


Down = Welcome | Refused | Bye | Identity | Delivery | EventHandled


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
    """Decode a worker's frame. Returns None for invalid data."""
    try:
        return _up.decode(data)
    except msgspec.MsgspecError:
        return None


def read_down(data: bytes) -> DownFrame | None:
    """Decode a server's frame. Returns None for invalid data."""
    try:
        return _down.decode(data)
    except msgspec.MsgspecError:
        return None
