"""The Hugging Face hub as the source of a model: a message before requests, and offline mode without a network."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from app.cli.terminal import say


def prepare_hub(name: str) -> None:
    """Prepare this process for a model that only the hub can have; no-op for other names.

    Prints a message. Without a network, sets the hub's packages to offline mode: otherwise they would retry each file
    for 25 s. Call this before they are imported.
    """
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or Path(name).exists():
        return
    # a failing hub is reported in one sentence; do not log every retry
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    action = "requesting it from the Hugging Face hub"
    if not _resolves():
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        action = "without a network, only the Hugging Face hub's cache on this machine is searched"
    say(f"kvtheater: {name} is not a folder here; {action}", to=sys.stderr)
    sys.stderr.flush()


def _resolves() -> bool:
    """Return whether the hub's address resolves; True with a proxy, which resolves it."""
    if getproxies():
        return True
    try:
        socket.getaddrinfo(urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co")).hostname, 443)
    except OSError:
        return False
    return True
