"""Thread that reads and writes all sockets."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import gevent
from gevent.event import Event
from gevent.threadpool import ThreadPool

T = TypeVar("T")
logger = logging.getLogger(__name__)


class Hub:
    """gevent hub in a thread.

    `call` may be called on any thread at any time, `run_greenlet` on all threads except the hub's, other methods on the
    hub thread only.
    """

    def __init__(self) -> None:
        self._loop: Any = None
        self._thread: threading.Thread | None = None
        self._early: deque[Callable[[], None]] = deque()  # queued until the loop runs
        self._lock = threading.Lock()

    @property
    def is_current_thread(self) -> bool:
        """Whether the caller runs on the hub thread."""
        return threading.current_thread() is self._thread

    def run(self, serve: Callable[[], None]) -> None:
        """Run the hub on this thread until `serve`, which may wait as greenlets do, returns."""
        hub = gevent.get_hub()
        with self._lock:
            self._thread, self._loop = threading.current_thread(), hub.loop
            while self._early:
                self._loop.run_callback(self._early.popleft())
        try:
            serve()
        finally:
            with self._lock:
                self._loop = None
            hub.destroy(destroy_loop=True)

    def call(self, do: Callable[[], None]) -> None:
        """Queue a call of `do`, which must not wait, on the hub thread. No-op after the hub has ended."""
        with self._lock:
            if self._loop is not None:
                self._loop.run_callback_threadsafe(do)
            elif self._thread is None:
                self._early.append(do)

    def wait_for(self, future: Future[T]) -> T:
        """Return the result of another thread's future. Other greenlets run meanwhile."""
        done = Event()
        future.add_done_callback(lambda _: self.call(done.set))
        done.wait()
        return future.result()

    def run_greenlet(self, do: Callable[[], T]) -> T:
        """Run `do`, which may wait, in a greenlet of the hub, and return its result. Call it on other threads."""
        future: Future[T] = Future()

        def execute() -> None:
            try:
                future.set_result(do())
            except BaseException as error:
                future.set_exception(error)

        self.call(lambda: gevent.spawn(execute) and None)
        return future.result()


class Workers:
    """Threads for work that would block greenlets: computation, files, waits for engines. Created on the hub thread."""

    def __init__(self, count: int) -> None:
        self._pool = ThreadPool(count, gevent.get_hub())

    def do(self, work: Callable[..., T], *arguments: Any) -> T:
        """Call `work` on a free worker and return the result. The calling greenlet waits."""
        result: T = self._pool.apply(work, arguments)
        return result

    def end(self, seconds: float) -> None:
        """End the threads. A thread still busy after `seconds` ends with the process."""
        with gevent.Timeout(seconds, False):
            self._pool.kill()
