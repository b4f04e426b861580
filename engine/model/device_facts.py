"""Snapshot of a device. Imports no torch, so that a server can include it in its answers."""

from __future__ import annotations

from msgspec import Struct


class DeviceFacts(Struct, frozen=True, kw_only=True):
    """Snapshot of a device. A field is None if the device does not report it."""

    name: str
    has_own_memory: bool  # False: the device uses the machine's memory
    total_bytes: int
    free_bytes: int
    process_bytes: int  # held by this process
    clock_mhz: int | None = None
    power_watts: float | None = None
