"""Progress line on the terminal that counts the seconds of a task, and disappears before any other output.

Imports only the standard library, so that it works while the rest of the package is imported.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.RLock()
_wanted = threading.Event()
_what, _began, _is_shown = "", 0.0, False


def working(what: str) -> None:
    """Count the seconds of task `what` on standard error, from 1 s; "": stop. No-op without a terminal."""
    global _what, _began
    if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return
    with alone_on_the_line():
        _what, _began = what, time.monotonic()
        if not what:
            _wanted.clear()
            return
        if not any(thread.name == "working" for thread in threading.enumerate()):
            threading.Thread(target=_count, name="working", daemon=True).start()
        _wanted.set()


@contextmanager
def alone_on_the_line() -> Iterator[None]:
    """Remove the progress line, and write none within the context."""
    global _is_shown
    with _lock:
        if _is_shown:
            _write("\r\x1b[K")
            _is_shown = False
        yield


def _count() -> None:
    global _is_shown
    last = 0
    while _wanted.wait():
        time.sleep(0.2)
        with _lock:
            seconds = int(time.monotonic() - _began)
            last, is_news = seconds, seconds != last
            if _what and seconds and is_news:
                _write(f"\r\x1b[Kkvtheater: {_what} ({seconds} s)")
                _is_shown = True


def _write(text: str) -> None:
    """Write without `sys.stderr`, whose lock a daemon thread could still hold when the interpreter exits."""
    os.write(sys.stderr.fileno(), text.encode())
