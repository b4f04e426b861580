"""Join codes of classes, and passes, by which browsers are identified afterwards.

A code has 6 characters out of 29, so there are 29^6 = 5.9e8 codes. At most `BURST` + `RATE` · t wrong codes are checked
in t seconds for one address. These are 600 + 86,400 guesses in a day, which find a given class with probability
1.5e-4. A flood of guesses blocks only its own address. The join link of the QR code has the class's key of 128 bits
and is not rate-limited.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time

from app.ground.callers import Pass

LETTERS = "23456789abcdefghjkmnpqrstwxyz"  # without characters that look alike: 0 o, 1 i l, u v
LENGTH = 6
BURST = 600  # wrong codes at once, as from a full lecture hall
RATE = 1.0  # wrong codes a second


def new_code() -> str:
    """Return a join code."""
    return "".join(secrets.choice(LETTERS) for _ in range(LENGTH))


def as_code(typed: str) -> str:
    """Normalize a typed code: case, spaces and hyphens are ignored."""
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
    """Issues and verifies the passes of a server. Passes are signed and not stored."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def new(self, class_id: str) -> str:
        """Return the text of a pass for a new seat."""
        seat = secrets.token_urlsafe(12)
        return f"{class_id}.{seat}.{self._signature(class_id, seat)}"

    def read(self, text: str) -> Pass | None:
        """Return the pass of a text, or None if this server did not issue it."""
        parts = text.split(".")
        if len(parts) != 3 or not all(part.isascii() for part in parts):
            return None
        class_id, seat, signature = parts
        return Pass(class_id, seat) if hmac.compare_digest(signature, self._signature(class_id, seat)) else None

    def _signature(self, class_id: str, seat: str) -> str:
        return hmac.new(self._key, f"{class_id}.{seat}".encode(), hashlib.sha256).hexdigest()[:32]


class Secret:
    """Secret issued to one person. Only its digest is kept after it is revealed."""

    def __init__(self) -> None:
        self._secret: str | None = secrets.token_urlsafe(24)
        self._digest = hashlib.sha256(self._secret.encode()).digest()

    def reveal(self) -> str:
        """Return the secret for its owner. May be called once."""
        secret, self._secret = self._secret, None
        assert secret is not None
        return secret

    def matches(self, secret: str) -> bool:
        given = hashlib.sha256(secret.encode("utf-8", "replace")).digest()
        return hmac.compare_digest(given, self._digest)
