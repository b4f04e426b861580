"""`kvtheater serve` in a separate process, for tests and measurements that need special options."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.conftest import ROOT


@contextmanager
def own_server(*options: str, wait_seconds: float = 60.0) -> Iterator[str]:
    """Serve on a free port within the context. Yields the address, without a last slash, when models are ready.

    Raises:
        RuntimeError: the server ended early; the message is its output.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "app", "serve", "--port", "0", *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if " is ready on " in line:
                break
        found = re.search(r"http://[\w.:]+", "".join(lines))
        if found is None or process.poll() is not None:
            raise RuntimeError("the server did not start: " + "".join(lines))
        threading.Thread(
            target=process.stdout.read, daemon=True
        ).start()  # otherwise the server would block on a full pipe
        yield found.group()
    finally:
        process.terminate()
        process.wait(wait_seconds)
