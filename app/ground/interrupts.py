"""Handling of Ctrl-C during imports, where an exception can be lost, or crash a half-imported library.

Has no slow imports, because an interrupt before `exit_on_interrupt` prints a traceback.
"""

from __future__ import annotations

import os
import signal

STATUS = 128 + signal.SIGINT


def exit_on_interrupt() -> None:
    """End the process at once on SIGINT. No-op if SIGINT is ignored or has another handler."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)


def raise_on_interrupt() -> None:
    """Undo `exit_on_interrupt`: SIGINT raises KeyboardInterrupt, so that a command cleans up."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit(*_: object) -> None:
    os.write(2, b"\r\x1b[K" * os.isatty(2) + b"kvtheater: stopped\n")
    os._exit(STATUS)
