"""Limits of the server's resources per client and for all clients together."""

from __future__ import annotations

from msgspec import Struct

MIB = 1024 * 1024


class Limits(Struct, frozen=True, kw_only=True):
    """Limits of the transport. Times are in seconds, sizes in bytes."""

    connections: int = 2048  # simultaneous connections; further ones wait to be accepted
    waiting_heads: int = 1280  # connections with an incomplete request; above it, the longest-waiting one is closed
    sessions: int = 2048  # Socket.IO sessions; above it, the oldest polling session is closed
    sessions_of_one: int = 8  # Socket.IO sessions of one guest, if guests are limited; above it, the oldest is closed
    greet_seconds: float = 30.0  # after which a new session is closed if its client has not connected to it
    head_seconds: float = 10.0  # for a request's head, from its first byte
    idle_seconds: float = 15.0  # until the first byte of a connection's first or next request
    head_bytes: int = 32 * 1024
    stall_seconds: float = 30.0  # without progress of a request's body or a response

    frames: int = 5000  # burst of frames of one client, with empty ones; above it, the client is disconnected
    frame_rate: float = 500.0  # sustained frames per second of one client
    client_seconds: float = 0.2  # burst of processor time of the hub thread for one client
    client_share: float = 0.01  # sustained share of a processor per client; above it, clients use `hub_share`
    hub_share: float = 0.25  # share of a processor for all clients that exceed their own shares

    http_threads: int = 16
    packets: int = 16  # Engine.IO packets in one request of a polling client
    uploads: int = 4  # simultaneous bodies that are too large to be read before their request is checked

    event_threads: int = 64
    events: int = 16  # pending events of a client; further ones are answered `busy`
    event_bytes: int = 2 * MIB  # bytes of a client's pending events
    all_events: int = 512
    all_event_bytes: int = 32 * MIB
    busy_answers: int = 256  # consecutive `busy` answers after which a client is disconnected
    busy_bytes: int = 4 * MIB  # unsent bytes to a client above which its events are answered `busy`
    client_bytes: int = 32 * MIB  # unsent bytes to a client above which it is disconnected
    all_bytes: int = 256 * MIB  # unsent bytes to all clients above which the client with most is disconnected
