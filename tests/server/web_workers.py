"""Web workers as applications in the test process, or `kvtheater worker` in separate processes."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from typing import Any

from app.server.listener import bind
from app.server.worker import create_worker
from tests.conftest import ROOT
from tests.server.waiting import wait_for


class Worker:
    """Web worker in threads of this process."""

    def __init__(self, queue: str, **options: Any) -> None:
        self.refused: list[str] = []
        self.app = create_worker(queue, self.refused.append, **options)
        self.link = self.app.extensions["kvtheater.link"]
        self.transport = self.app.extensions["kvtheater.transport"]
        bound = bind("127.0.0.1", 0)
        self.port = int(bound.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = self.transport.start(self.app, bound)
        self.link.start()

    def linked(self) -> Worker:
        wait_for(lambda: self.link.is_linked, "the link to the server")
        return self

    def close(self) -> None:
        self.transport.refuse_more()
        self.link.stop()
        self.transport.stop()
        self._thread.join(10)


class WorkerProcess:
    """Process of `kvtheater worker`, which can be killed."""

    def __init__(self, queue: str, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "app", "worker", "--message-queue", queue, "--port", "0", *options],
            cwd=ROOT, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        found = re.search(r"http://[^\s/]+", self.process.stdout.readline())
        assert found
        self.url = found.group()
        self.port = int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
