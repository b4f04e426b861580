"""Redis server that tests can stop and restart. A test is skipped if redis-server is not installed."""

import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest


class RedisServer:
    """Redis process without persistence, always on the same port."""

    def __init__(self, folder: Path) -> None:
        found = shutil.which("redis-server")
        if found is None:
            pytest.skip("redis-server is not installed: `apt-get install redis-server` (make test does it)")
        pytest.importorskip("redis")
        self._command, self._folder = found, folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.url = self.database(0)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def database(self, number: int) -> str:
        """Return the URL of a database by its number."""
        return f"redis://127.0.0.1:{self.port}/{number}"

    def start(self) -> None:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(
            [self._command, *options, "--dir", str(self._folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < end, "redis-server does not answer"
                time.sleep(0.02)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
