"""The thread that does all reading and writing of sockets."""

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
    """gevent hub in a thread. `call` is for any thread at any time, `ask` for threads other than the hub's, the rest
    for the hub thread.
    """

    def __init__(self) -> None:
        self._loop: Any = None
        self._thread: threading.Thread | None = None
        self._early: deque[Callable[[], None]] = deque()  # queued until the loop runs
        self._lock = threading.Lock()

    @property
    def is_here(self) -> bool:
        """Whether this is the hub thread."""
        return threading.current_thread() is self._thread

    def run(self, serve: Callable[[], None]) -> None:
        """Run the hub on this thread until `serve`, which waits cooperatively, returns."""
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
        """Call `do`, which must not wait, on the hub thread, in order. Dropped after the hub has ended."""
        with self._lock:
            if self._loop is not None:
                self._loop.run_callback_threadsafe(do)
            elif self._thread is None:
                self._early.append(do)

    def wait_for(self, future: Future[T]) -> T:
        """Return the result of another thread's future; other greenlets run meanwhile."""
        done = Event()
        future.add_done_callback(lambda _: self.call(done.set))
        done.wait()
        return future.result()

    def ask(self, do: Callable[[], T]) -> T:
        """Call `do`, which may wait, on a greenlet, and return its result. Called on other threads."""
        future: Future[T] = Future()

        def carry_out() -> None:
            try:
                future.set_result(do())
            except BaseException as error:
                future.set_exception(error)

        self.call(lambda: gevent.spawn(carry_out) and None)
        return future.result()


class Workers:
    """Threads for work that would block greenlets: computing, files, waiting for engines. Create on the hub thread."""

    def __init__(self, count: int) -> None:
        self._pool = ThreadPool(count, gevent.get_hub())

    def do(self, work: Callable[..., T], *arguments: Any) -> T:
        """Call `work` on a free worker, and return its result to the waiting greenlet."""
        result: T = self._pool.apply(work, arguments)
        return result

    def end(self, seconds: float) -> None:
        """End the threads. One that is still working after `seconds` ends with the process."""
        with gevent.Timeout(seconds, False):
            self._pool.kill()
