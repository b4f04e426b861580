"""Waiting for another thread."""

import time
from collections.abc import Callable


def wait_for(condition: Callable[[], object], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"the condition did not become true within {seconds} s"
        time.sleep(0.01)
