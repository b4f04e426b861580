"""Worker processes of instances, and their pool."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Protocol, Self

from engine.cluster.messages import ModelSource, ToCluster, ToInstance
from engine.config import ConfigError
from engine.connector.peer import Peer
from engine.options.refusal import sentence
from engine.system.host import child_environment

END_SECONDS = 5.0  # after which an ending process is killed
MAX_SPARE = 4


class Connection(Protocol):
    """Connection to a worker: `engine.connector.peer.Peer`, or `ray_worker.RayPeer`."""

    def fileno(self) -> int: ...
    def send(self, message: ToInstance, timeout: float | None = None) -> None: ...
    def receive(self, timeout: float | None = None) -> ToCluster: ...
    def receive_all(self) -> list[ToCluster]: ...
    def close(self) -> None: ...


class AnyWorker(Protocol):
    """Worker of an instance: `WorkerProcess`, or `ray_worker.RayWorker`."""

    @property
    def peer(self) -> Connection: ...
    @property
    def pid(self) -> int: ...
    @property
    def is_alive(self) -> bool: ...
    def kill(self) -> None: ...
    def wait(self, seconds: float = END_SECONDS) -> str:
        """Wait for its end, and kill it after `seconds`. Returns how it ended, in one sentence."""

    def close(self) -> None:
        """End the process. Idempotent."""


class WorkerProcess:
    """Process of `engine.cluster.worker` and the connection to it. Not thread-safe."""

    def __init__(self) -> None:
        parent_end, child_end = socket.socketpair()
        with child_end:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "engine.cluster.worker", str(child_end.fileno())],
                pass_fds=[child_end.fileno()],
                stdin=subprocess.DEVNULL,
                env=child_environment(HF_HUB_DISABLE_PROGRESS_BARS="1"),
                process_group=0,  # Ctrl-C in the terminal must not reach it
            )
        self.peer = Peer[ToCluster](parent_end, ToCluster)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()

    def wait(self, seconds: float = END_SECONDS) -> str:
        """Wait for its end, and kill it after `seconds`. Returns how it ended, in one sentence."""
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        return f"it was ended by {signal.Signals(-status).name}" if status < 0 else f"its exit status is {status}"

    def close(self) -> None:
        """End the process. Idempotent."""
        self.peer.close()  # the process ends when its connection is closed
        self.wait()
        self.peer.release()


class AllInUseError(ConfigError):
    """The maximum number of processes is running."""


class Workers:
    """Pool of processes for instances of one model. A returned process keeps its weights for the next instance.

    Thread-safe.
    """

    def __init__(
        self, source: ModelSource, most: int | None = None, start: Callable[[], AnyWorker] | None = None
    ) -> None:
        """Create the pool. `most`: maximum number of processes, None: unlimited; `start`: default `WorkerProcess`."""
        self.source, self._most, self._start = source, most, start or WorkerProcess
        self._taken: list[AnyWorker] = []
        self._lock = threading.Lock()
        self._spare: list[AnyWorker] = []
        self._is_closed = False

    def warm(self, count: int) -> None:
        """Start `count` workers in advance."""
        for _ in range(count):
            self.give_back(self._start())

    def take(self) -> AnyWorker:
        """Return a spare worker, or start one.

        Raises:
            AllInUseError: the maximum number is running.
        """
        with self._lock:
            self._taken = [worker for worker in self._taken if worker.is_alive]
            if self._most is not None and len(self._taken) >= self._most:
                raise AllInUseError(sentence("instances.all_used", most=self._most))
            found: AnyWorker | None = None
            while self._spare and found is None:
                worker = self._spare.pop()
                if worker.is_alive:
                    found = worker
                else:
                    worker.close()
            found = found or self._start()
            self._taken.append(found)
            return found

    def give_back(self, worker: AnyWorker) -> None:
        with self._lock:
            self._taken = [one for one in self._taken if one is not worker]
            if not self._is_closed and len(self._spare) < MAX_SPARE:
                self._spare.append(worker)
                return
        worker.close()

    def close(self) -> None:
        """End the spare workers. Those in use end when they are given back. Idempotent."""
        with self._lock:
            self._is_closed, spare, self._spare = True, self._spare, []
        _close_all(spare)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _close_all(workers: Sequence[AnyWorker]) -> None:
    for worker in workers:  # they end in parallel
        worker.peer.close()
    for worker in workers:
        worker.close()
