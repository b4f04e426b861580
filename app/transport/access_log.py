"""Access log: one line of JSON per request, written when its response has been sent or its client has disconnected.

    {"time": "2026-01-01T08:00:00.123Z", "method": "POST", "path": "/v1/completions", "status": 200, "bytes": 812,
     "seconds": 0.514, "client": "grader", "request_id": "cmpl-7", "model": "bundled", "prompt_tokens": 12, …}

It contains no query strings, headers, bodies, keys or tokens, and only the folder of a secret path. An endpoint adds
fields of its request with `add_fields`; only the fields in FIELDS are written.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import IO, Any, Self
from urllib.parse import urlsplit

ACCESS = "kvtheater.access"  # key in a request's environment: dict with fields for its line
# client: name of the API key; token counts: of the whole request
FIELDS = ("client", "request_id", "model", "theater", "prompt_tokens", "cached_tokens", "completion_tokens")
STANDARD_OUTPUT = "-"
MAX_WAITING = 10_000  # queued lines; further lines are lost, and the next written line states their number
MAX_TEXT = 200  # characters of a field
CLOSE_SECONDS = 2.0
logger = logging.getLogger(__name__)


def add_fields(environ: dict[str, Any], **fields: str | int | None) -> None:
    """Add fields to a request's line before its response ends. May be called on any thread.

    The dict is mutated rather than replaced, because middleware may have copied the environment.
    """
    environ.setdefault(ACCESS, {}).update(fields)


class AccessLog:
    """Access log, written on a separate thread so that a slow disk or a full pipe delays no request."""

    def __init__(self, out: IO[str], secret: Sequence[str] = (), owned: bool = False) -> None:
        """Open the log. `secret`: folders below which paths are not logged. `owned`: `close` also closes `out`."""
        self._out, self._secret, self._owned = out, tuple(secret), owned
        self._lines: queue.Queue[str | None] = queue.Queue(MAX_WAITING)
        self._num_lost = 0
        self._fails = False
        self._thread = threading.Thread(target=self._write, name="access-log", daemon=True)
        self._thread.start()

    @classmethod
    def open(cls, where: str, secret: Sequence[str] = ()) -> Self:
        """Open a log that appends to a file readable by its owner only, or writes to standard output if `where` is "-".

        Raises:
            OSError: the file cannot be written.
        """
        if where == STANDARD_OUTPUT:
            return cls(sys.stdout, secret)
        descriptor = os.open(os.path.expanduser(where), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        return cls(os.fdopen(descriptor, "a", encoding="utf-8"), secret, owned=True)

    def record(
        self,
        environ: Mapping[str, Any] | None,
        *,
        started_at: float,
        seconds: float,
        status: int | None,
        num_bytes: int,
        disconnected: bool = False,
    ) -> None:
        """Log a request. May be called on any thread. `RequestObserver` describes the arguments."""
        line: dict[str, str | int | float | None] = {
            "time": datetime.fromtimestamp(started_at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "method": environ["REQUEST_METHOD"][:MAX_TEXT] if environ else None,
            "path": self._path(environ) if environ else None,
            "status": status,
            "bytes": num_bytes,
            "seconds": round(seconds, 6),
        }
        if disconnected:
            line["gone"] = True
        added = (environ or {}).get(ACCESS, {})
        for field in FIELDS:
            value = added.get(field)
            if isinstance(value, str):
                line[field] = value[:MAX_TEXT]
            elif isinstance(value, int) and not isinstance(value, bool):
                line[field] = value
        if self._num_lost:
            line["lost"] = self._num_lost
        try:
            self._lines.put_nowait(json.dumps(line))
            self._num_lost = 0
        except queue.Full:
            self._num_lost += 1

    def close(self) -> None:
        """Write the queued lines and end the thread. Waits at most CLOSE_SECONDS for each."""
        try:
            self._lines.put(None, timeout=CLOSE_SECONDS)
        except queue.Full:
            return
        self._thread.join(CLOSE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _path(self, environ: Mapping[str, Any]) -> str:
        path = str(environ.get("PATH_INFO", "")).encode("latin-1", "replace").decode("utf-8", "replace")
        if not path.startswith("/"):  # absolute form, as sent to proxies; the URL may contain a password
            path = urlsplit(path).path
        for folder in self._secret:
            if path.startswith(folder):
                return f"{folder}*"
        return path

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._out.write(line + "\n")
                if self._lines.empty():
                    self._out.flush()
                self._fails = False
            except (OSError, ValueError) as error:  # ValueError: the file was closed
                if not self._fails:
                    logger.warning("the access log cannot be written: %s", error)
                self._fails = True
        try:
            self._out.close() if self._owned else self._out.flush()
        except (OSError, ValueError) as error:
            logger.warning("the last lines of the access log may be missing: %s", error)
