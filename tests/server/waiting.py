"""Waiting for events on other threads."""

import time
from collections.abc import Callable
from typing import Any


def wait_for(condition: Callable[[], Any], what: str = "it", seconds: float = 10.0) -> None:
    """Poll until the condition holds, and fail after the time limit."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen within {seconds} s"
        time.sleep(0.005)
