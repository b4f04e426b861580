"""Error class of the recorder."""


class WatchError(ValueError):
    """The run cannot be recorded. The message gives the reason in one sentence."""
