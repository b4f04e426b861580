"""Admission: join codes, and the browser's pass that identifies it later.

A code has 6 of 29 letters and digits: 29^6 = 5.9e8. Wrong codes are checked at most `BURST` + `RATE` · t times in t
seconds from one address: in a day 600 + 86,400 guesses, a chance of 1.5e-4 to find one class. A flood of guesses blocks
its own address only, and never clients with the link that has the class's key (128 bits, in the QR code): that is not
rate-limited.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time

from app.ground.callers import Pass

LETTERS = "23456789abcdefghjkmnpqrstwxyz"  # none that are read as another: 0 o, 1 i l, u v
LENGTH = 6
BURST = 600  # wrong codes at once: a full hall that mistypes
RATE = 1.0  # a second


def new_code() -> str:
    """Return a join code."""
    return "".join(secrets.choice(LETTERS) for _ in range(LENGTH))


def as_code(typed: str) -> str:
    """Normalize typed text to a code: case, spaces and hyphens do not matter."""
    return "".join(letter for letter in typed.lower() if letter.isalnum())


class Allowance:
    """Token bucket: a burst, and a long-run rate per second."""

    def __init__(self, burst: float, rate: float) -> None:
        self._burst, self._rate = burst, rate
        self._left, self._at = burst, time.monotonic()
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Take a token. Returns False if none is left."""
        with self._lock:
            self._fill()
            if self._left < 1:
                return False
            self._left -= 1
            return True

    @property
    def is_empty(self) -> bool:
        with self._lock:
            self._fill()
            return self._left < 1

    def _fill(self) -> None:
        now = time.monotonic()
        self._left = min(self._burst, self._left + self._rate * (now - self._at))
        self._at = now


class Passes:
    """Creation and verification of a server's passes, which are not stored."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def new(self, class_id: str) -> str:
        """Return the text of a pass for a new seat."""
        seat = secrets.token_urlsafe(12)
        return f"{class_id}.{seat}.{self._mark(class_id, seat)}"

    def read(self, text: str) -> Pass | None:
        """Return the pass of a text, or None if this server did not issue it."""
        parts = text.split(".")
        if len(parts) != 3 or not all(part.isascii() for part in parts):
            return None
        class_id, seat, mark = parts
        return Pass(class_id, seat) if hmac.compare_digest(mark, self._mark(class_id, seat)) else None

    def _mark(self, class_id: str, seat: str) -> str:
        return hmac.new(self._key, f"{class_id}.{seat}".encode(), hashlib.sha256).hexdigest()[:32]


class Secret:
    """Secret issued to one person; only its digest is stored here."""

    def __init__(self) -> None:
        self._word: str | None = secrets.token_urlsafe(24)
        self._digest = hashlib.sha256(self._word.encode()).digest()

    def tell(self) -> str:
        """Return the secret to its owner, once; afterwards it is not available here."""
        word, self._word = self._word, None
        assert word is not None
        return word

    def fits(self, word: str) -> bool:
        given = hashlib.sha256(word.encode("utf-8", "replace")).digest()
        return hmac.compare_digest(given, self._digest)
