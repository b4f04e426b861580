"""Error of the recorders."""

from __future__ import annotations


class WatchError(ValueError):
    """A run that a trace cannot say; one sentence that says why."""
