"""Trace files that are only shown: those that come with the program, and those given on the command line.

A shipped `NAME.kvtrace` has a `NAME.json` beside it: `title` and `text` in both languages, `tags`, and `command`, the
command line that made it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import threading
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from app.scenes.scene_texts import Translated
from app.session.answers import Ended
from app.session.summary import Summary, summarize
from engine.trace.codec import TraceFormatError

RecordingSource = Literal["library", "shipped", "file"]


class Entry(Struct, frozen=True, kw_only=True):
    """Recording of any source. Only those of the library can be changed."""

    id: str
    source: RecordingSource  # library: stored by this server; shipped: part of the program; file: on the command line
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


SUFFIX = ".kvtrace"
logger = logging.getLogger(__name__)


class Card(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Description of a shipped recording, beside its file."""

    title: Translated
    text: Translated
    command: str
    tags: list[str] = []


class Shelf:
    """Some trace files, each opened when it is first listed."""

    def __init__(self, source: RecordingSource, files: Iterable[Path], taken: Collection[str] = ()) -> None:
        """`taken`: ids that other shelves have. Files of one name, or of such an id, are called after their folders."""
        self.source = source
        files = list(dict.fromkeys(files))
        named = Counter(recording_id(path.stem) for path in files) + Counter(taken)
        self._alike = {path for path in files if named[recording_id(path.stem)] > 1}
        self._files = {recording_id(str(path) if path in self._alike else path.stem): path for path in files}
        self._read: dict[str, tuple[str, Summary]] = {}  # by id: the file as it was when it was read
        self._lock = threading.Lock()

    @property
    def ids(self) -> list[str]:
        """Ids of all files, in their order."""
        return list(self._files)

    def path(self, wanted: str) -> Path | None:
        """Return where the recording lies; None when it is not here."""
        return self._files.get(wanted)

    def entries(self) -> list[Entry]:
        """Return all that can be read."""
        return [entry for found in self._files if (entry := self.entry(found))]

    def entry(self, wanted: str) -> Entry | None:
        """Return the entry of a recording."""
        path = self._files.get(wanted)
        if path is None:
            return None
        try:
            summary = self._summary(wanted, path)
            card = _card(path)
        except (OSError, TraceFormatError, msgspec.MsgspecError) as error:
            logger.warning("%s: %s", readable(path.name), error)
            return None
        if card is None:
            name = f"{path.parent.name}/{path.stem}" if path in self._alike else path.stem
            return Entry(id=wanted, source=self.source, name=readable(name), summary=summary)
        return Entry(
            id=wanted,
            source=self.source,
            name=card.title["en"],
            title=card.title,
            text=card.text,
            command=card.command,
            tags=card.tags,
            summary=summary,
        )

    def _summary(self, wanted: str, path: Path) -> Summary:
        stamp = file_stamp(path)
        with self._lock:
            known = self._read.get(wanted)
            if known is None or known[0] != stamp:
                known = self._read[wanted] = stamp, summarize(path)
        return known[1]


def traces_in(folder: Path) -> list[Path]:
    """Return the trace files of a folder by name; empty if there is no folder."""
    return sorted(path for path in folder.glob(f"*{SUFFIX}") if path.is_file())


def recording_id(stem: str) -> str:
    """Return the id of a file found under this name: the same at every start."""
    if re.fullmatch(r"rec-[a-z0-9-]{1,50}", stem):
        return stem
    if re.fullmatch(r"[a-z0-9-]{1,50}", stem):
        return f"rec-{stem}"
    return "rec-" + hashlib.sha256(stem.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def readable(name: str) -> str:
    """Return a file's name as text: bytes that are not UTF-8 are replaced, so that it can be shown and sent."""
    return os.fsencode(name).decode("utf-8", "replace")


def file_stamp(path: Path) -> str:
    """Changes when the file does."""
    found = path.stat()
    return f"{found.st_size}:{found.st_mtime_ns}"


def _card(path: Path) -> Card | None:
    try:
        text = path.with_suffix(".json").read_bytes()
    except FileNotFoundError:
        return None
    return msgspec.json.decode(text, type=Card)
