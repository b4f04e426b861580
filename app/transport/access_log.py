"""Access log: one line of JSON per request, written when its answer has been sent or its client has left.

    {"time": "2026-01-01T08:00:00.123Z", "method": "POST", "path": "/v1/completions", "status": 200, "bytes": 812,
     "seconds": 0.514, "client": "grader", "request_id": "cmpl-7", "model": "bundled", "prompt_tokens": 12, …}

It has no query strings, headers, bodies, keys or tokens; of a secret path it has only the folder. An endpoint adds
fields of its request with `tell`; only the fields named here are written.
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

ACCESS = "kvtheater.access"  # in a request's environment: a dict that its line takes fields from
# client: the name of its key. A number of tokens is that of the whole request.
FIELDS = ("client", "request_id", "model", "theater", "prompt_tokens", "cached_tokens", "completion_tokens")
STANDARD_OUTPUT = "-"
MAX_WAITING = 10_000  # lines; where the file takes them no faster, later ones are lost, and the next one says how many
MAX_TEXT = 200  # characters of a field
CLOSE_SECONDS = 2.0
logger = logging.getLogger(__name__)


def tell(environ: dict[str, Any], **fields: str | int | None) -> None:
    """Add fields to this request's line before its answer ends; from any thread.

    The dict is changed and not replaced: what stands between here and the connection may have copied the environment.
    """
    environ.setdefault(ACCESS, {}).update(fields)


class AccessLog:
    """Access log written on a thread of its own: a slow disk or a full pipe delays no request."""

    def __init__(self, out: IO[str], secret: Sequence[str] = (), owned: bool = False) -> None:
        """Open the log. `secret`: folders whose paths are not logged. `owned`: `out` is closed at the end."""
        self._out, self._secret, self._owned = out, tuple(secret), owned
        self._lines: queue.Queue[str | None] = queue.Queue(MAX_WAITING)
        self._num_lost = 0
        self._fails = False
        self._thread = threading.Thread(target=self._write, name="access-log", daemon=True)
        self._thread.start()

    @classmethod
    def open(cls, where: str, secret: Sequence[str] = ()) -> Self:
        """Open the log for appending to a file that only its owner may read; `-`: standard output.

        Raises:
            OSError: the file cannot be written.
        """
        if where == STANDARD_OUTPUT:
            return cls(sys.stdout, secret)
        descriptor = os.open(os.path.expanduser(where), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        return cls(os.fdopen(descriptor, "a", encoding="utf-8"), secret, owned=True)

    def note(
        self,
        environ: Mapping[str, Any] | None,
        *,
        began: float,
        seconds: float,
        status: int | None,
        num_bytes: int,
        gone: bool = False,
    ) -> None:
        """Log a request (`Noting` describes the arguments), from any thread."""
        line: dict[str, str | int | float | None] = {
            "time": datetime.fromtimestamp(began, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "method": environ["REQUEST_METHOD"][:MAX_TEXT] if environ else None,
            "path": self._path(environ) if environ else None,
            "status": status,
            "bytes": num_bytes,
            "seconds": round(seconds, 6),
        }
        if gone:
            line["gone"] = True
        noted = (environ or {}).get(ACCESS, {})
        for field in FIELDS:
            value = noted.get(field)
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
        """Write what waits, for a moment at most."""
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
        if not path.startswith("/"):  # a proxy's form, with the whole address, in which a password may be
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
            except (OSError, ValueError) as error:  # ValueError: it was closed
                if not self._fails:
                    logger.warning("the access log cannot be written: %s", error)
                self._fails = True
        try:
            self._out.close() if self._owned else self._out.flush()
        except (OSError, ValueError) as error:
            logger.warning("the access log may lack its last lines: %s", error)
