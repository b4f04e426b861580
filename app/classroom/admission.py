"""Limits of the seats of a class, per address and for seats that are not confirmed.

A seat is confirmed once it has been connected for `CONFIRM_SECONDS` without a pause. One address, which may be the NAT
of a whole school, has at most `MAX_UNCONFIRMED` other seats at once, so 300 / 20 s = 15 followers per second can enter.
A disconnected unconfirmed seat is replaced by the next one of its address: a flood of seats replaces its own, and a
class behind the same address still gets in.
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
CONFIRM_SECONDS = 20.0  # of one connection
EXPIRE_SECONDS = 120.0  # without a connection, of an unconfirmed seat that has answered nothing
MAX_ORIGINS = 12  # origins that are shown to the presenter


def seat_to_replace(address: str, seats: Iterable[Seat]) -> Seat | None:
    """Return the seat that must be removed before an address gets another one; None if none must.

    Raises:
        AppError: `busy` while too many of the address are unconfirmed; `refused` if no seat can be removed.
    """
    everyone = list(seats)
    mine = [seat for seat in everyone if seat.address == address]
    unconfirmed = [seat for seat in mine if not is_confirmed(seat)]
    if len(unconfirmed) >= MAX_UNCONFIRMED:
        return _idle(unconfirmed, refusal("busy", "seat.at_once", n=MAX_UNCONFIRMED))
    if len(mine) >= MAX_OF_ADDRESS:
        return _idle(mine, refusal("refused", "seat.of_address", n=MAX_OF_ADDRESS))
    if len(everyone) >= MAX_SEATS:
        return _idle(everyone, refusal("refused", "seat.full", n=MAX_SEATS))
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


def coarse(address: str) -> str:
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
    everyone = list(seats)
    counts = Counter(coarse(seat.address) for seat in everyone)
    here = Counter(coarse(seat.address) for seat in everyone if seat.is_here)
    return [{"origin": one, "seats": n, "here": here[one]} for one, n in counts.most_common(MAX_ORIGINS)]


def _idle(among: list[Seat], otherwise: AppError) -> Seat:
    """Return the seat that can be removed with the least loss: the longest away, preferably without an answer.

    Raises:
        AppError: `otherwise`, if each seat is connected, is trusted, or has lasted and answered.
    """
    idle = [
        seat for seat in among if not (seat.is_here or seat.is_trusted or (seat.has_answered and is_confirmed(seat)))
    ]
    if not idle:
        raise otherwise
    return min(idle, key=lambda seat: (seat.has_answered, seat.left_at))
