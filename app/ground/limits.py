"""Limits on what one client, and all of them together, may make the server hold."""

from __future__ import annotations

from msgspec import Struct

MIB = 1024 * 1024


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds of the transport. Times in seconds, sizes in bytes."""

    connections: int = 2048  # at once; the next one waits to be accepted
    waiting_heads: int = 1280  # of them without a whole request: beyond that the one that waits for longest is closed
    sessions: int = 2048  # of Socket.IO; beyond that the oldest that polls ends
    sessions_of_one: int = 8  # of one guest, where guests are distinguished: beyond that the oldest ends
    greet_seconds: float = 30.0  # until a session is a client's, or ends
    head_seconds: float = 10.0  # for a request's head, from its first byte on
    idle_seconds: float = 15.0  # until the first byte of a connection's first or next request
    head_bytes: int = 32 * 1024
    stall_seconds: float = 30.0  # a request's body or an answer that does not move for so long

    frames: int = 5000  # of one client at once, with or without content; then it is disconnected
    frame_rate: float = 500.0  # a second that it may send for long
    client_seconds: float = 0.2  # processor time of the hub thread for one client at once
    client_share: float = 0.01  # of a processor for one client, for long; beyond it clients share the next
    hub_share: float = 0.25  # of a processor for what all clients send beyond their own shares

    http_threads: int = 16
    packets: int = 16  # of Engine.IO in one request of a client that polls
    uploads: int = 4  # bodies that are too large to be taken before their request is looked at

    event_threads: int = 64
    events: int = 16  # of one client under way; the next is `busy`
    event_bytes: int = 2 * MIB  # of their messages
    all_events: int = 512
    all_event_bytes: int = 32 * MIB
    busy_answers: int = 256  # in a row; then the client is disconnected
    busy_bytes: int = 4 * MIB  # waiting to be sent to a client: events are `busy` until it reads
    client_bytes: int = 32 * MIB  # waiting to be sent to a client: it is disconnected
    all_bytes: int = 256 * MIB  # waiting to be sent; above it the client with most is disconnected
