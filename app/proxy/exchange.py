"""File of requests and their reported usage, one per line. No line contains a key."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

from engine.prompts.readers import usage_of
from engine.prompts.segments import PROMPTS

Mode = Literal["redacted", "whole", "private"]
MAX_ANSWER = 16 * 1024 * 1024  # bytes of a response, or of one event of a stream, that are searched for usage
MIN_KEY = 12  # characters; a shorter key is no secret, and may be a word of the prompt
MAX_CLEAN = 100_000  # cached digests of texts without secrets
REDACTED = "[redacted]"
KEYS = re.compile(
    r"\b(?:sk|rk|pk)-[\w-]{16,}|\bgh[a-z]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}|\bhf_\w{20,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[\w-]{30,}|\bxox[a-z]-[\w-]{10,}|\beyJ[\w-]{6,}\.[\w-]{6,}\.[\w-]{6,}"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]{1,10000}-----END [A-Z ]{0,30}PRIVATE KEY-----"
)
SECRET = r"(?i:password|passwd|secret|token|api_?key|authorization)"
SECRET_NAME = re.compile(SECRET + r"\Z")
ASSIGNED = re.compile(SECRET + r"""["']?\s{0,4}[:=]\s{0,4}(?i:bearer )?["']?(?P<value>[^\s"',;]{8,})""")
PERSONAL = frozenset({"metadata", "user", "safety_identifier", "user_profile_id"})  # fields that identify the requester
# fields whose texts (PLAIN_TEXTS) and whose members (INSIDE) a private line contains
PLAIN_TEXTS = frozenset({"role", "type", "model", "ttl"})
INSIDE = frozenset(
    ("messages", "system", "tools", "input", "content", "tool_calls", "function", "output", "summary", "cache_control",
     "thinking")
)  # fmt: skip


class Exchanges:
    """File of JSON lines with `path`, `time`, `request` and `usage`."""

    def __init__(self, path: Path, mode: Mode, secret: bytes) -> None:
        """`secret`: key of the hashes of private lines, so that a known text cannot be searched by its hash.

        Raises:
            OSError: the file cannot be written.
        """
        self._mode, self._secret = mode, secret
        self._clean: set[bytes] = set()
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")
        self.count = 0

    def add(self, path: str, time: float, body: bytes, usage: dict[str, Any] | None, keys: Iterable[str]) -> None:
        """Append a line if the body is a request to a model. `keys`: keys in its headers, which are redacted."""
        for key in keys:
            if len(key) >= MIN_KEY:
                body = body.replace(key.encode("utf-8", "surrogateescape"), REDACTED.encode())
        try:
            request = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        if not isinstance(request, dict) or not any(name in request for name in PROMPTS):
            return
        if self._mode == "redacted":
            request = {
                key: REDACTED if key in PERSONAL else redacted(one, key, self._clean) for key, one in request.items()
            }
        elif self._mode == "private":
            request = {key: self._private(one, key) for key, one in request.items()}
        line = {"path": path, "time": time, "request": request, "usage": usage}
        self._file.write(msgspec.json.encode(line) + b"\n")
        self._file.flush()
        self.count += 1

    def close(self) -> None:
        self._file.close()

    def _private(self, value: Any, name: str) -> Any:
        """Return the structure of a request, with texts and tool definitions replaced by hash and length."""
        if isinstance(value, list):
            if any(isinstance(one, int) for one in value):  # token ids, which reveal the text
                return self._hashed(value)
            return [self._private(one, name) for one in value]
        if isinstance(value, dict) and name in INSIDE:
            return {
                key: self._hashed(one) if key == "input" and isinstance(one, dict) else self._private(one, key)
                for key, one in value.items()
            }
        if value is None or isinstance(value, bool | int | float) or (name in PLAIN_TEXTS and isinstance(value, str)):
            return value
        return self._hashed(value)

    def _hashed(self, value: Any) -> dict[str, Any]:
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        digest = hmac.new(self._secret, text.encode(), hashlib.sha256).hexdigest()
        return {"hash": digest[:16], "length": len(text)}


def redacted(value: Any, name: str = "", clean: set[bytes] | None = None) -> Any:
    """Return a value without likely secrets and pictures. `name`: name of its field.

    `clean`: digests of texts without secrets, which are not searched again, since each request of a conversation
    repeats them.
    """
    if isinstance(value, list):
        return [redacted(one, name, clean) for one in value]
    if isinstance(value, dict):
        is_picture = value.get("type") == "base64"
        return {
            key: REDACTED if is_picture and key == "data" else redacted(one, key, clean) for key, one in value.items()
        }
    if not isinstance(value, str):
        return value
    if SECRET_NAME.search(name) or (value.startswith("data:") and ";base64," in value[:100]):
        return REDACTED
    clean = set() if clean is None else clean
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).digest()
    if digest in clean:
        return value
    found = ASSIGNED.sub(_without_value, KEYS.sub(REDACTED, value))
    if found == value:
        if len(clean) >= MAX_CLEAN:
            clean.clear()
        clean.add(digest)
    return found


def _without_value(found: re.Match[str]) -> str:
    return found[0].removesuffix(found["value"]) + REDACTED


class UsageReader:
    """Reader of the usage in a forwarded response, which is one body or a stream of events."""

    def __init__(self, content_type: str, encoding: str) -> None:
        self._is_stream = content_type.startswith("text/event-stream")
        self._unzip = zlib.decompressobj(wbits=47) if encoding in ("gzip", "deflate") else None
        self._is_unreadable = encoding not in ("", "identity", "gzip", "deflate")
        self._left = b""
        self._usage: dict[str, Any] | None = None

    def feed(self, data: bytes) -> None:
        """Read the next bytes of the response's body."""
        if self._is_unreadable:
            return
        try:
            self._left += self._unzip.decompress(data, MAX_ANSWER) if self._unzip else data
        except zlib.error:
            self._is_unreadable = True
        if self._is_stream:
            *lines, self._left = self._left.split(b"\n")
            for line in lines:
                if line.startswith(b"data:") and b'"usage"' in line:
                    self._parse(line.removeprefix(b"data:"))
        if len(self._left) > MAX_ANSWER or (self._unzip and self._unzip.unconsumed_tail):
            self._is_unreadable, self._left = True, b""

    def end(self) -> dict[str, Any] | None:
        """Return the usage in the response; None if it has none or cannot be read."""
        if not self._is_stream:
            self._parse(self._left)
        return self._usage

    def _parse(self, data: bytes) -> None:
        try:
            body = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        if (found := usage_of(body)) is not None:
            self._usage = (self._usage or {}) | found
