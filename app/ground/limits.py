"""Limits on what one client, and all of them together, may make the server hold."""

from __future__ import annotations

from msgspec import Struct

MIB = 1024 * 1024


class Limits(Struct, frozen=True, kw_only=True):
    """Limits of the transport. Times are in seconds, sizes in bytes."""

    connections: int = 2048  # simultaneous; further ones wait to be accepted
    waiting_heads: int = 1280  # with an incomplete request; beyond, the longest-waiting one is closed
    sessions: int = 2048  # of Socket.IO; beyond, the oldest polling session is closed
    sessions_of_one: int = 8  # of one guest, if guests are distinguished; beyond, the oldest is closed
    greet_seconds: float = 30.0  # until a client connects to a new session; then it is closed
    head_seconds: float = 10.0  # for a request's head, from its first byte
    idle_seconds: float = 15.0  # until the first byte of a connection's first or next request
    head_bytes: int = 32 * 1024
    stall_seconds: float = 30.0  # without progress of a request's body or a response

    frames: int = 5000  # burst of one client, empty frames included; beyond, it is disconnected
    frame_rate: float = 500.0  # sustained frames per second of one client
    client_seconds: float = 0.2  # burst of processor time of the hub thread for one client
    client_share: float = 0.01  # sustained share of a processor per client; beyond, clients use `hub_share`
    hub_share: float = 0.25  # of a processor, for all clients that exceed their own shares

    http_threads: int = 16
    packets: int = 16  # of Engine.IO in one request of a polling client
    uploads: int = 4  # bodies too large to be read before their request is checked

    event_threads: int = 64
    events: int = 16  # pending ones of a client; further ones are answered `busy`
    event_bytes: int = 2 * MIB  # of the messages of these events
    all_events: int = 512
    all_event_bytes: int = 32 * MIB
    busy_answers: int = 256  # consecutive; then the client is disconnected
    busy_bytes: int = 4 * MIB  # unsent to a client; beyond, its events are answered `busy`
    client_bytes: int = 32 * MIB  # unsent to a client; beyond, it is disconnected
    all_bytes: int = 256 * MIB  # unsent to all clients; beyond, the client with most is disconnected
