"""The Hugging Face hub as a source of a model: the line printed before a request; offline behavior."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from app.cli.terminal import say


def ask_hub(name: str) -> None:
    """Prepare this process for a model that only the hub can have; no-op for other names.

    Prints a line at once. Without a network the hub's packages look in their cache alone: otherwise they would retry
    each file for 25 s. Call it before anything imports them.
    """
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or Path(name).exists():
        return
    # a failing hub is reported in one sentence, not retry by retry
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    doing = "asking the Hugging Face hub"
    if not _resolves():
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        doing = "without a network only the Hugging Face hub's cache on this machine may have it"
    say(f"kvtheater: {name} is not a folder here; {doing}", to=sys.stderr)
    sys.stderr.flush()


def _resolves() -> bool:
    """Return whether this machine finds the hub's address, or leaves that to a proxy."""
    if getproxies():
        return True
    try:
        socket.getaddrinfo(urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co")).hostname, 443)
    except OSError:
        return False
    return True
