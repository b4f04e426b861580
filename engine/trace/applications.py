"""Latency objectives of common applications, with their sources (`applications.toml`)."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

FILE = Path(__file__).with_suffix(".toml")


class Application(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Row of the table. Times are in seconds."""

    id: str
    model: str
    dataset: str
    ttft: float
    tpot: float
    name: str = ""  # name in `--slo` and on the page; "" = not offered there


def _read() -> tuple[Application, ...]:
    entries = msgspec.toml.decode(FILE.read_bytes(), type=dict[str, list[Application]])
    return tuple(entries["application"])


TABLE = _read()
