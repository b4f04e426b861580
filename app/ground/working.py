"""Progress line on the terminal that counts the seconds of a task, and is erased before any other output.

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
_active = threading.Event()
_task, _started, _is_shown = "", 0.0, False


def working(task: str) -> None:
    """Count the seconds of a task on standard error, from 1 s on. "" ends the count. No-op without a terminal."""
    global _task, _started
    if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return
    with without_progress_line():
        _task, _started = task, time.monotonic()
        if not task:
            _active.clear()
            return
        if not any(thread.name == "working" for thread in threading.enumerate()):
            threading.Thread(target=_count, name="working", daemon=True).start()
        _active.set()


@contextmanager
def without_progress_line() -> Iterator[None]:
    """Erase the progress line, and write none within the context."""
    global _is_shown
    with _lock:
        if _is_shown:
            _write("\r\x1b[K")
            _is_shown = False
        yield


def _count() -> None:
    global _is_shown
    last = 0
    while _active.wait():
        time.sleep(0.2)
        with _lock:
            seconds = int(time.monotonic() - _started)
            last, has_changed = seconds, seconds != last
            if _task and seconds and has_changed:
                _write(f"\r\x1b[Kkvtheater: {_task} ({seconds} s)")
                _is_shown = True


def _write(text: str) -> None:
    """Write without `sys.stderr`, whose lock a daemon thread could still hold when the interpreter exits."""
    os.write(sys.stderr.fileno(), text.encode())
