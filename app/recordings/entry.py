"""A recording as the library lists it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from app.recordings.index import Ended
from app.scenes.told import Translated
from app.session.summary import Summary

Source = Literal["library", "shipped", "file"]


class Entry(Struct, frozen=True, kw_only=True):
    """One recording of any source. Only those of the library can be changed."""

    id: str
    source: Source  # library: kept by this server; shipped: comes with the program; file: given on the command line
    name: str
    title: Translated | None = None  # a shipped one's
    text: Translated | None = None  # what there is to see in it
    command: str | None = None  # that made it
    tags: list[str] = []
    notes: str = ""
    added: str = ""
    ended: Ended | None = None  # None: being recorded, or not recorded here
    ended_detail: str = ""
    recording: bool = False  # it grows
    summary: Summary
