"""Read-only trace files, which are shipped or given on the command line.

For a shipped `NAME.kvtrace`, `NAME.json` has `title` and `text` in both languages, `tags`, and `command`, the command
line that recorded the file.
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
    source: RecordingSource  # library: stored by this server; file: given on the command line
    name: str
    title: Translated | None = None  # of a shipped recording
    text: Translated | None = None  # description of a shipped recording
    command: str | None = None  # command line that recorded a shipped recording
    tags: list[str] = []
    notes: str = ""
    added: str = ""
    ended: Ended | None = None  # None: being recorded, or not recorded by this server
    ended_detail: str = ""
    recording: bool = False  # whether it is being recorded
    summary: Summary


SUFFIX = ".kvtrace"
logger = logging.getLogger(__name__)


class Card(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Description of a shipped recording."""

    title: Translated
    text: Translated
    command: str
    tags: list[str] = []


class Shelf:
    """Read-only trace files. A file is first read when it is listed."""

    def __init__(self, source: RecordingSource, files: Iterable[Path], reserved: Collection[str] = ()) -> None:
        """`reserved`: ids of other shelves. Files with such ids or equal names are named with their folder."""
        self.source = source
        files = list(dict.fromkeys(files))
        named = Counter(recording_id(path.stem) for path in files) + Counter(reserved)
        self._ambiguous = {path for path in files if named[recording_id(path.stem)] > 1}
        self._files = {recording_id(str(path) if path in self._ambiguous else path.stem): path for path in files}
        self._read: dict[str, tuple[str, Summary]] = {}  # by id: stamp of the file, and its summary
        self._lock = threading.Lock()

    @property
    def ids(self) -> list[str]:
        """Ids of all files in order."""
        return list(self._files)

    def path(self, wanted: str) -> Path | None:
        """Return the path of a recording, or None."""
        return self._files.get(wanted)

    def entries(self) -> list[Entry]:
        """Return the entries of all readable files."""
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
            name = f"{path.parent.name}/{path.stem}" if path in self._ambiguous else path.stem
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
    """Return the trace files of a folder, sorted by name. Empty if there is no folder."""
    return sorted(path for path in folder.glob(f"*{SUFFIX}") if path.is_file())


def recording_id(stem: str) -> str:
    """Return the id of a file, which is stable across restarts."""
    if re.fullmatch(r"rec-[a-z0-9-]{1,50}", stem):
        return stem
    if re.fullmatch(r"[a-z0-9-]{1,50}", stem):
        return f"rec-{stem}"
    return "rec-" + hashlib.sha256(stem.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def readable(name: str) -> str:
    """Return a file's name as text, with bytes that are not UTF-8 replaced."""
    return os.fsencode(name).decode("utf-8", "replace")


def file_stamp(path: Path) -> str:
    """Return a value that changes with the file."""
    found = path.stat()
    return f"{found.st_size}:{found.st_mtime_ns}"


def _card(path: Path) -> Card | None:
    try:
        text = path.with_suffix(".json").read_bytes()
    except FileNotFoundError:
        return None
    return msgspec.json.decode(text, type=Card)
