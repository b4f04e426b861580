"""Paths of the APIs, and the names of their headers."""

from __future__ import annotations

PREFIX = "/v1/"
MESSAGES = "/v1/messages"  # Anthropic's
ALIVE = frozenset({"/health", "/ping"})  # requested by load balancers, without a key
METRICS = "/metrics"
PATHS = frozenset({"/tokenize", "/detokenize", "/version", METRICS}) | ALIVE
MAX_BYTES = 8 * 1024 * 1024  # of a body
SESSION = "X-KVTheater-Theater"  # session that shall serve the request, or has served it


def is_api(path: str) -> bool:
    """Return whether a path belongs to the API."""
    return path.startswith(PREFIX) or path in PATHS


def is_anthropic(path: str) -> bool:
    """Return whether responses of a path have Anthropic's format."""
    return path == MESSAGES or path.startswith(MESSAGES + "/")


def is_for_keys(path: str) -> bool:
    """Return whether a path needs an API key, if the server has keys.

    Metrics do not: they cover all clients, and Prometheus and `kvtheater top`, which read them, have no key. Like the
    page, they need the server's token if it has one.
    """
    return is_api(path) and path != METRICS
