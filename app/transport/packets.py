"""Socket.IO packets on the wire: msgpack, bounded as they are read, packed once for all recipients."""

from __future__ import annotations

import base64
import re
from typing import Any

import msgpack
from engineio.packet import MESSAGE
from engineio.packet import Packet as EnginePacket
from socketio.msgpack_packet import MsgPackPacket
from socketio.packet import ACK, EVENT

NAMESPACE = "/"
CONTROL = re.compile(r"[1-6](probe)?")  # packets of Engine.IO itself; those of Socket.IO are binary
MAX_THINGS = 50_000  # lists, maps and their entries in one message; the largest regular one has a few thousand
_NO_EVENTS = ("connect", "disconnect")  # internal events of the library, which clients must not send
RELAYED = "relayed"  # name of every event in a process that forwards events


class Message(MsgPackPacket):  # type: ignore[misc]
    """Socket.IO packet. The last argument of an event is its size in bytes."""

    def decode(self, encoded_packet: bytes) -> None:
        """Decode a packet. Raises an error for an invalid one, or for one with too many entries."""
        left = MAX_THINGS

        def counted(things: list[Any]) -> None:
            nonlocal left
            left -= 1 + len(things)
            if left < 0:
                raise ValueError("too many things")

        def as_list(things: list[Any]) -> list[Any]:
            counted(things)
            return things

        def as_map(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
            counted(pairs)
            return dict(pairs)

        # An empty list is one byte of a message and sixty of memory.
        bounds = {"max_array_len": MAX_THINGS, "max_map_len": MAX_THINGS}
        found = msgpack.unpackb(encoded_packet, list_hook=as_list, object_pairs_hook=as_map, **bounds)
        self.packet_type, self.namespace = found["type"], found["nsp"]
        self.data, self.id = found.get("data"), found.get("id")
        if self.packet_type == EVENT:
            if not isinstance(self.data, list) or not self.data:
                raise ValueError("an event without a name")
            if self.data[0] in _NO_EVENTS:
                self.data[0] = repr(self.data[0])
            self.data.append(len(encoded_packet))


class Relayed(Message):
    """Packet in a process that forwards events: checked here, decoded by the receiver.

    Its arguments are its bytes and the number of its acknowledgement (None: not requested).
    """

    def decode(self, encoded_packet: bytes) -> None:
        super().decode(encoded_packet)
        if self.packet_type == EVENT:
            self.data, self.id = [RELAYED, bytes(encoded_packet), self.id], None


class Shared(EnginePacket):  # type: ignore[misc]
    """Packet for clients of both transports. The library's packet would use the first encoding for all."""

    def __init__(self, packed: bytes) -> None:
        super().__init__(MESSAGE, packed)

    def encode(self, b64: bool = False) -> str | bytes:
        return "b" + base64.b64encode(self.data).decode() if b64 else self.data


def is_polled(packet: str) -> bool:
    """Return whether a polling client's `packet` is valid; Engine.IO's reader raises otherwise."""
    if not packet.startswith("b"):
        return CONTROL.fullmatch(packet) is not None
    try:
        base64.b64decode(packet[1:], validate=True)
    except ValueError:
        return False
    return True


def packed_event(event: str, data: Any, number: int | None) -> bytes:
    """Return an encoded event. With a number, receivers acknowledge it."""
    found: bytes = Message(EVENT, namespace=NAMESPACE, data=[event, data], id=number).encode()
    return found


def packed_ack(ack: Any, number: int) -> bytes:
    """Return an encoded acknowledgement."""
    found: bytes = Message(ACK, namespace=NAMESPACE, data=[ack], id=number).encode()
    return found
