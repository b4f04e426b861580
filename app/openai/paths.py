"""The API's addresses, and the names of its headers."""

from __future__ import annotations

PREFIX = "/v1/"
ALIVE = frozenset({"/health", "/ping"})  # that a load balancer asks for, without a key
PATHS = frozenset({"/tokenize", "/detokenize", "/version", "/metrics"}) | ALIVE
MOST_BYTES = 8 * 1024 * 1024  # of a body
THEATER = "X-KVTheater-Theater"  # the theater that is to answer, or that did


def is_api(path: str) -> bool:
    """Whether a path is the API's."""
    return path.startswith(PREFIX) or path in PATHS
