"""Waiting for another thread."""

import time
from collections.abc import Callable


def wait_for(happened: Callable[[], object], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
