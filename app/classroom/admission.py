"""Limits on the seats of a class: per address, and for unconfirmed seats.

A seat is confirmed once it has been connected for `CONFIRM_SECONDS` without interruption. One address, which may be the
NAT of a whole school, has at most `MAX_UNCONFIRMED` unconfirmed seats, so 300 / 20 s = 15 followers per second can
enter. Above the limit, a new seat replaces a disconnected unconfirmed seat of the same address. A flood of seats
therefore replaces its own, and a class behind the same address can still enter.
"""

from __future__ import annotations

import ipaddress
import time
from collections import Counter
from collections.abc import Iterable

from app.classroom.answers import OriginCount
from app.classroom.refusing import refusal
from app.classroom.seats import Seat
from app.ground.errors import AppError

MAX_SEATS = 1200
MAX_UNCONFIRMED = 300  # of one address
MAX_OF_ADDRESS = 1000  # seats of one address
CONFIRM_SECONDS = 20.0  # of uninterrupted connection
EXPIRE_SECONDS = 120.0  # without a connection, after which an unconfirmed seat without answers expires
MAX_ORIGINS = 12  # origins shown to the presenter


def seat_to_replace(address: str, seats: Iterable[Seat]) -> Seat | None:
    """Return the seat that must be removed before an address gets another one, or None if no limit is reached.

    Raises:
        AppError: `busy` while too many seats of the address are unconfirmed; `refused` if no seat can be removed.
    """
    all_seats = list(seats)
    own = [seat for seat in all_seats if seat.address == address]
    unconfirmed = [seat for seat in own if not is_confirmed(seat)]
    if len(unconfirmed) >= MAX_UNCONFIRMED:
        return _removable(unconfirmed, refusal("busy", "seat.at_once", n=MAX_UNCONFIRMED))
    if len(own) >= MAX_OF_ADDRESS:
        return _removable(own, refusal("refused", "seat.of_address", n=MAX_OF_ADDRESS))
    if len(all_seats) >= MAX_SEATS:
        return _removable(all_seats, refusal("refused", "seat.full", n=MAX_SEATS))
    return None


def expired(seats: Iterable[Seat]) -> list[Seat]:
    """Return unconfirmed seats that have long been disconnected and have no answers."""
    limit = time.monotonic() - EXPIRE_SECONDS
    return [
        seat
        for seat in seats
        if not (seat.is_here or seat.has_answered or is_confirmed(seat)) and seat.left_at <= limit
    ]


def is_confirmed(seat: Seat) -> bool:
    """Return whether a seat was connected long enough, or is trusted by the presenter."""
    return seat.is_trusted or seat.connected_for >= CONFIRM_SECONDS


def network_of(address: str) -> str:
    """Return the network of an address: /24 of IPv4, /48 of IPv6."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "?"
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is None:
            network = ipaddress.ip_network((int(found) >> 80 << 80, 48))
            return f"{network.network_address}x"
        found = found.ipv4_mapped
    return f"{str(found).rpartition('.')[0]}.x"


def origins(seats: Iterable[Seat]) -> list[OriginCount]:
    """Return the number of seats by network, the largest first."""
    all_seats = list(seats)
    counts = Counter(network_of(seat.address) for seat in all_seats)
    here = Counter(network_of(seat.address) for seat in all_seats if seat.is_here)
    return [{"origin": one, "seats": n, "here": here[one]} for one, n in counts.most_common(MAX_ORIGINS)]


def _removable(seats: list[Seat], error: AppError) -> Seat:
    """Return the seat to remove: preferably one without an answer, then the one disconnected for the longest time.

    Raises:
        AppError: `error`, if each seat is connected, trusted, or confirmed with an answer.
    """
    idle = [
        seat for seat in seats if not (seat.is_here or seat.is_trusted or (seat.has_answered and is_confirmed(seat)))
    ]
    if not idle:
        raise error
    return min(idle, key=lambda seat: (seat.has_answered, seat.left_at))
