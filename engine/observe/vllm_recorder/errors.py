"""Error of the recorder."""


class WatchError(ValueError):
    """The run cannot be recorded; the message says why in one sentence."""
