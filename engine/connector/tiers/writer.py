"""Writer of blocks to the disk, so that the engine never waits: a thread of its own and a bounded queue."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict

from engine.connector.tiers.disk_tier import DiskTier

QUEUE_BYTES = 256 * 2**20  # waiting payloads; shared with the CPU tier, not copied
log = logging.getLogger(__name__)


class DiskWriter:
    """Payloads on their way to one disk tier, first come first written; before the first one the folder is swept."""

    def __init__(self, disk: DiskTier, max_bytes: int = QUEUE_BYTES) -> None:
        self._disk = disk
        self._max_bytes = max_bytes
        self._changed = threading.Condition()
        self._waiting: OrderedDict[bytes, bytes] = OrderedDict()  # the first one may be being written
        self._bytes = 0
        self._closed = False
        # a daemon: a disk that hangs must not keep the server from ending
        self._thread = threading.Thread(target=self._run, name="kv-disk-writer", daemon=True)
        self._thread.start()

    def get(self, key: bytes) -> bytes | None:
        """Return the payload while it waits. It leaves only when it can be found on the disk, or was dropped."""
        with self._changed:
            return self._waiting.get(key)

    def __contains__(self, key: bytes) -> bool:
        return self.get(key) is not None

    def submit(self, key: bytes, payload: bytes) -> bool:
        """Queue a write. Return False if the queue is full (an empty one takes any size), which is counted and
        reported.
        """
        with self._changed:
            if key in self._waiting:
                return True
            full = bool(self._waiting) and self._bytes + len(payload) > self._max_bytes
            if not full and not self._closed:
                self._waiting[key] = payload
                self._bytes += len(payload)
                self._changed.notify_all()
                return True
        self._disk.book.drop("closed" if self._closed else "queue_full", key, f"{self._bytes} bytes wait")
        return False

    def flush(self, timeout: float) -> bool:
        """Wait until nothing waits, `timeout` seconds at most. Whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting, timeout)

    def close(self, timeout: float) -> int:
        """Refuse new blocks, and write the queue within `timeout` seconds. Returns the number of unwritten blocks."""
        deadline = time.monotonic() + timeout
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self.flush(timeout)
        with self._changed:
            left = list(self._waiting)
            self._waiting.clear()
            self._bytes = 0
            self._changed.notify_all()
        for key in left:
            self._disk.book.drop("closed", key, f"not written within {timeout:g} s")
        self._thread.join(max(0.0, deadline - time.monotonic()))
        return len(left)

    def _run(self) -> None:
        self._disk.sweep()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                key, payload = next(iter(self._waiting.items()))
            try:
                self._disk.store(key, payload)
            except Exception as error:  # a bug of ours; the engine continues without this block on disk
                log.exception("a KV block was not written")
                self._disk.book.drop("io_error", key, str(error))
            with self._changed:
                if self._waiting.pop(key, None) is not None:  # None: closed meanwhile
                    self._bytes -= len(payload)
                self._changed.notify_all()
