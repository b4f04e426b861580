"""What keeps a run from being written down."""

from __future__ import annotations


class WatchError(ValueError):
    """A run that a trace cannot say; one sentence that says why."""
