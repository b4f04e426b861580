"""Publisher like vLLM's, with PUB and ROUTER sockets, numbered messages, and a bounded buffer."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Literal

import msgspec
import zmq

END = (-1).to_bytes(8, "big", signed=True)
Shape = Literal["pair", "topic"]


class Publisher:
    """Publisher of one server run. Messages with numbers in `withheld` are buffered and not published."""

    def __init__(self, ports: tuple[int, int] = (0, 0), buffer: int = 10_000, shape: Shape = "pair") -> None:
        self._context = zmq.Context()
        self._pub: zmq.Socket[bytes] = self._context.socket(zmq.PUB)
        self._router: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        for sock in (self._pub, self._router):
            sock.setsockopt(zmq.LINGER, 0)
        self.ports = (_bind(self._pub, ports[0]), _bind(self._router, ports[1]))
        self._buffer: deque[tuple[int, bytes]] = deque(maxlen=buffer)
        self._shape = shape
        self.withheld: set[int] = set()
        self.silent = False  # whether replay requests are ignored

        self._next = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def events(self) -> str:
        return f"tcp://127.0.0.1:{self.ports[0]}"

    @property
    def replay(self) -> str:
        return f"tcp://127.0.0.1:{self.ports[1]}"

    def publish(self, payload: bytes) -> int:
        """Publish a message and return its number."""
        with self._lock:
            number, self._next = self._next, self._next + 1
            self._buffer.append((number, payload))
            if number not in self.withheld:
                self._pub.send_multipart([b"kv-events", number.to_bytes(8, "big"), payload])
            return number

    def again(self, number: int, payload: bytes) -> None:
        """Publish a duplicate."""
        with self._lock:
            self._pub.send_multipart([b"kv-events", number.to_bytes(8, "big"), payload])

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._context.destroy(linger=0)

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self) -> None:
        while not self._over.is_set():
            if not self._router.poll(20):
                continue
            client, _, first = self._router.recv_multipart()
            start = int.from_bytes(first, "big")

            if self.silent:
                continue
            with self._lock:
                messages = [one for one in self._buffer if one[0] >= start]
            topic = [b"kv-events"] if self._shape == "topic" else []
            for number, payload in messages:
                self._router.send_multipart([client, b"", *topic, number.to_bytes(8, "big"), payload])
            self._router.send_multipart([client, b"", *topic, END, b""])


def _bind(sock: zmq.Socket[bytes], port: int) -> int:
    sock.bind(f"tcp://127.0.0.1:{port or '*'}")
    endpoint = sock.getsockopt_string(zmq.LAST_ENDPOINT)
    return int(endpoint.rpartition(":")[2])


def stored(hashes: list[Any], tokens: list[int], size: int, parent: Any = None, **more: Any) -> dict[str, Any]:
    """Return a `BlockStored` as a map."""
    fields = {"block_hashes": hashes, "parent_block_hash": parent, "token_ids": tokens, "block_size": size}
    return {"type": "BlockStored", **fields, "lora_id": None, "medium": "GPU", "lora_name": None, **more}


def removed(hashes: list[Any], **more: Any) -> dict[str, Any]:
    """Return a `BlockRemoved` as a map."""
    return {"type": "BlockRemoved", "block_hashes": hashes, "medium": "GPU", **more}


def message(*events: Any, ts: float = 1.0, rank: int | None = 0) -> bytes:
    """Return the bytes of one message."""
    return msgspec.msgpack.encode([ts, list(events), rank])
