"""Error of the recorders."""

from __future__ import annotations


class WatchError(ValueError):
    """The run cannot be recorded; the message says why in one sentence."""
