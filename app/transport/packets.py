"""Socket.IO packets in msgpack. Their size is limited while decoding, and they are encoded once for all recipients."""

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
CONTROL = re.compile(r"[1-6](probe)?")  # Engine.IO's control packets; Socket.IO packets are binary
MAX_ITEMS = 50_000  # lists, maps and their entries in a message; the largest regular message has a few thousand
_NO_EVENTS = ("connect", "disconnect")  # internal events of the library, which clients must not send
RELAYED = "relayed"  # name of every event in a process that forwards events


class Message(MsgPackPacket):  # type: ignore[misc]
    """Socket.IO packet. The size of an event in bytes is appended to its arguments."""

    def decode(self, encoded_packet: bytes) -> None:
        """Decode a packet. Raises an exception if it is invalid or has too many items."""
        left = MAX_ITEMS

        def counted(items: list[Any]) -> None:
            nonlocal left
            left -= 1 + len(items)
            if left < 0:
                raise ValueError(f"a message has more than {MAX_ITEMS} items")

        def as_list(items: list[Any]) -> list[Any]:
            counted(items)
            return items

        def as_map(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
            counted(pairs)
            return dict(pairs)

        # an empty list takes one byte in a message, but sixty bytes of memory
        bounds = {"max_array_len": MAX_ITEMS, "max_map_len": MAX_ITEMS}
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
    """Packet in a process that forwards events. Decoding validates it; the receiving process handles it.

    An event's arguments are the encoded packet and the number of the acknowledgement (None: not requested).
    """

    def decode(self, encoded_packet: bytes) -> None:
        super().decode(encoded_packet)
        if self.packet_type == EVENT:
            self.data, self.id = [RELAYED, bytes(encoded_packet), self.id], None


class SharedPacket(EnginePacket):  # type: ignore[misc]
    """Packet for clients of both transports. The library's class would use the first client's encoding for all."""

    def __init__(self, packed: bytes) -> None:
        super().__init__(MESSAGE, packed)

    def encode(self, b64: bool = False) -> str | bytes:
        return "b" + base64.b64encode(self.data).decode() if b64 else self.data


def is_polled(packet: str) -> bool:
    """Return whether a polling client's packet is valid. Engine.IO raises an exception for an invalid one."""
    if not packet.startswith("b"):
        return CONTROL.fullmatch(packet) is not None
    try:
        base64.b64decode(packet[1:], validate=True)
    except ValueError:
        return False
    return True


def packed_event(event: str, data: Any, number: int | None) -> bytes:
    """Return an encoded event. `number`: requests acknowledgements with this number."""
    found: bytes = Message(EVENT, namespace=NAMESPACE, data=[event, data], id=number).encode()
    return found


def packed_ack(ack: Any, number: int) -> bytes:
    """Return an encoded acknowledgement."""
    found: bytes = Message(ACK, namespace=NAMESPACE, data=[ack], id=number).encode()
    return found
