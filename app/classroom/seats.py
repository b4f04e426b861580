"""Seats of a class: one per browser that has entered, independent of its connections."""

from __future__ import annotations

import json
import random
import time
import unicodedata
from pathlib import Path

from app.classroom.answers import Wish
from app.classroom.refusing import refusal

LONGEST_NAME = 24  # characters
LOST_EVERY = 10.0  # seconds between two marks of one seat
LOST_LASTS = 60.0  # seconds for which a mark lasts
_NAMES: dict[str, tuple[list[str], list[str], str]] = {
    code: (words["first"], words["second"], words["between"])
    for code, words in json.loads((Path(__file__).parent / "names.json").read_text(encoding="utf-8")).items()
}


class Seat:
    """Seat of a follower. Changed under the class's lock."""

    def __init__(self, number: int, key: str, name: str, address: str = "") -> None:
        self.number = number  # shown to others
        self.key = key  # of its pass; never sent to other clients
        self.name = name
        self.address = address  # of its first connection; only the network is shown
        self.has_answered = False  # whether it has answered any question
        self.is_trusted = False  # the presenter made it the driver or a remote
        self.sids: set[str] = set()  # ids of its connections
        self._here_since = time.monotonic()
        self._connected_for = 0.0  # seconds of the longest past period with a connection
        self.left_at = time.monotonic()
        self.is_remote = False  # may press "next" and "back"
        self.wish: Wish | None = None  # request to the presenter
        self._lost_at = -LOST_LASTS
        self._marked_at = -LOST_EVERY

    @property
    def is_here(self) -> bool:
        return bool(self.sids)

    @property
    def connected_for(self) -> float:
        """Seconds of its longest period with a connection."""
        now = time.monotonic() - self._here_since if self.sids else 0.0
        return max(self._connected_for, now)

    def connect(self, sid: str) -> None:
        """Add a connection."""
        if not self.sids:
            self._here_since = time.monotonic()
        self.sids.add(sid)

    def disconnect(self, sid: str) -> None:
        """Remove a connection."""
        self._connected_for = self.connected_for
        self.sids.discard(sid)
        self.left_at = time.monotonic()

    @property
    def is_lost(self) -> bool:
        return time.monotonic() - self._lost_at < LOST_LASTS

    def mark_lost(self) -> bool:
        """Mark the seat as lost. Returns whether this counts as a new mark: at most one per LOST_EVERY seconds does."""
        now = self._lost_at = time.monotonic()
        if now - self._marked_at < LOST_EVERY:
            return False
        self._marked_at = now
        return True

    def clear_lost(self) -> None:
        """Clear the "lost here" mark."""
        self._lost_at = -LOST_LASTS


def invented_name(language: str, taken: set[str]) -> str:
    """Return a name of a colour and a bird that is not yet taken in the class."""
    first, second, between = _NAMES.get(language, _NAMES["en"])
    for _ in range(64):
        name = f"{random.choice(first)}{between}{random.choice(second)}"
        if name not in taken:
            return name
    number = 2
    while f"{name} {number}" in taken:
        number += 1
    return f"{name} {number}"


def checked_name(text: str) -> str:
    """Return a name in normalized form.

    Raises:
        AppError: `bad_request` if it is too long, or empty after normalization.
    """
    name = " ".join(unicodedata.normalize("NFC", text).split())
    name = "".join(letter for letter in name if letter.isprintable())
    if not name or len(name) > LONGEST_NAME:
        raise refusal("bad_request", "name.length", n=LONGEST_NAME)
    return name
