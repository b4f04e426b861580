"""The API's addresses, and the names of its headers."""

from __future__ import annotations

PREFIX = "/v1/"
PATHS = frozenset({"/tokenize", "/detokenize", "/health", "/ping", "/version", "/metrics"})
THEATER = "X-KVTheater-Theater"  # the theater that is to answer, or that did
ACCESS = "kvtheater.access"  # in a request's environment: what its line in the access log says besides


def is_api(path: str) -> bool:
    """Whether a path is the API's."""
    return path.startswith(PREFIX) or path in PATHS
