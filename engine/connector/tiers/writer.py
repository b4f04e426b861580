"""Writer of blocks to the disk: a thread with a bounded queue, so that engines do not wait for the disk."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict

from engine.connector.tiers.disk_tier import DiskTier

QUEUE_BYTES = 256 * 2**20  # maximum bytes of queued payloads, which the CPU tier shares
log = logging.getLogger(__name__)


class DiskWriter:
    """Queue of payloads for a disk tier, and the thread that sweeps the folder and then writes them in order."""

    def __init__(self, disk: DiskTier, max_bytes: int = QUEUE_BYTES) -> None:
        self._disk = disk
        self._max_bytes = max_bytes
        self._changed = threading.Condition()
        self._queue: OrderedDict[bytes, bytes] = OrderedDict()  # the thread may be writing the first one
        self._bytes = 0
        self._closed = False
        # a daemon thread, so that a disk that hangs does not prevent the exit of the server
        self._thread = threading.Thread(target=self._run, name="kv-disk-writer", daemon=True)
        self._thread.start()

    def get(self, key: bytes) -> bytes | None:
        """Return a queued payload, or None. A payload is in the queue until it is on the disk or dropped."""
        with self._changed:
            return self._queue.get(key)

    def __contains__(self, key: bytes) -> bool:
        return self.get(key) is not None

    def submit(self, key: bytes, payload: bytes) -> bool:
        """Queue a write. Returns False, and counts a drop, if the queue is full. An empty queue accepts any size."""
        with self._changed:
            if key in self._queue:
                return True
            full = bool(self._queue) and self._bytes + len(payload) > self._max_bytes
            if not full and not self._closed:
                self._queue[key] = payload
                self._bytes += len(payload)
                self._changed.notify_all()
                return True
        self._disk.stats.drop("closed" if self._closed else "queue_full", key, f"{self._bytes} bytes are queued")
        return False

    def flush(self, timeout: float) -> bool:
        """Wait until the queue is empty. Returns False after `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._queue, timeout)

    def close(self, timeout: float) -> int:
        """Reject new blocks, and write the queue within `timeout` seconds. Returns the number of unwritten blocks."""
        deadline = time.monotonic() + timeout
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self.flush(timeout)
        with self._changed:
            unwritten = list(self._queue)
            self._queue.clear()
            self._bytes = 0
            self._changed.notify_all()
        for key in unwritten:
            self._disk.stats.drop("closed", key, f"not written within {timeout:g} s")
        self._thread.join(max(0.0, deadline - time.monotonic()))
        return len(unwritten)

    def _run(self) -> None:
        self._disk.sweep()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed)
                if not self._queue:
                    return
                key, payload = next(iter(self._queue.items()))
            try:
                self._disk.store(key, payload)
            except Exception as error:  # unexpected; the engine continues without this block on disk
                log.exception("a KV block could not be written to disk")
                self._disk.stats.drop("io_error", key, str(error))
            with self._changed:
                if self._queue.pop(key, None) is not None:  # None if `close` has cleared the queue
                    self._bytes -= len(payload)
                self._changed.notify_all()
