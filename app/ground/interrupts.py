"""Ctrl-C while the program is being imported: an exception there can be lost, or crash a half-imported library.

Imports nothing that takes time: until `exit_on_interrupt`, an interrupt prints a traceback.
"""

from __future__ import annotations

import os
import signal

STATUS = 128 + signal.SIGINT


def exit_on_interrupt() -> None:
    """End the process at once on SIGINT, unless the caller ignores or handles the signal."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)


def raise_on_interrupt() -> None:
    """Raise KeyboardInterrupt on SIGINT again, so that a command cleans up."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit(*_: object) -> None:
    os.write(2, b"\r\x1b[K" * os.isatty(2) + b"kvtheater: stopped\n")
    os._exit(STATUS)
