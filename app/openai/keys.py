"""API keys of clients, as digests, and the policy of each key.

No key is stored. A configured key is identified by its SHA-256, any other key by an HMAC with a secret of this process.
The digests distinguish clients in logs and on the page without revealing the keys.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import tomllib
from pathlib import Path

import msgspec
from msgspec import Struct

from app.ground.settings import Policy
from app.openai.errors import ApiError
from engine.options.toml_text import toml_tables


class _KeyTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Table of a client in the key file."""

    sha256: str
    max_waiting: int | None = None
    max_tokens: int | None = None
    deadline: float | None = None


def digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


class ApiKeys:
    """API keys of a server. A server without keys accepts every request, and uses the sent key to identify clients."""

    def __init__(self, known: dict[str, Policy], default: Policy) -> None:
        """`known`: policies by SHA-256 of their keys. `default`: policy of all clients if the server has no keys."""
        self._known, self._default = known, default
        self._secret = secrets.token_bytes(32)

    def knows(self, key: str) -> bool:
        return digest(key) in self._known

    def policy(self, key: str) -> Policy:
        """Return the policy of the client that sent `key` ("": none).

        Raises:
            ApiError: 401, the server has keys, and this is not one of them.
        """
        if self._known:
            found = self._known.get(digest(key))
            if found is None:
                message = "the API key is unknown to this server" if key else "this server requires an API key"
                raise ApiError(message, status=401, code="invalid_api_key")
            return found
        if not key:
            return self._default
        name = hmac.new(self._secret, key.encode("utf-8", "surrogatepass"), "sha256").hexdigest()[:6]
        return msgspec.structs.replace(self._default, name=f"key-{name}")


def read_keys(path: Path, default: Policy) -> dict[str, Policy]:
    """Read policies by SHA-256 from a TOML file with a table per client: `[name]`, `sha256 = "…"`, and its limits.

    Raises:
        ValueError: the file cannot be read, or is invalid.
    """
    try:
        tables = msgspec.convert(toml_tables(path.read_text(encoding="utf-8")), dict[str, _KeyTable])
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {error}") from error
    found: dict[str, Policy] = {}
    for name, table in tables.items():
        sha256 = table.sha256.lower()
        if len(sha256) != 64 or not all(char in "0123456789abcdef" for char in sha256):
            raise ValueError(f"{path}: sha256 of {name} must have 64 digits of 0-9a-f")
        fields = ("max_waiting", "max_tokens", "deadline")
        limits = {field: value for field in fields if (value := getattr(table, field)) is not None}
        found[sha256] = msgspec.structs.replace(default, name=name, **limits)
    return found
