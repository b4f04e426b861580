"""What is known of a device at a moment. Imports no torch, so that a server can say it in its answers."""

from __future__ import annotations

from msgspec import Struct


class DeviceFacts(Struct, frozen=True, kw_only=True):
    """What is known of a device now; None: it does not say."""

    name: str
    has_own_memory: bool  # False: it computes in the machine's
    total_bytes: int
    free_bytes: int
    process_bytes: int  # that this process has of it
    clock_mhz: int | None = None
    power_watts: float | None = None
