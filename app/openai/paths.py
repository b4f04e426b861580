"""The API's addresses, and the names of its headers."""

from __future__ import annotations

PREFIX = "/v1/"
MESSAGES = "/v1/messages"  # Anthropic's
ALIVE = frozenset({"/health", "/ping"})  # that a load balancer asks for, without a key
METRICS = "/metrics"  # of everybody's requests
PATHS = frozenset({"/tokenize", "/detokenize", "/version", METRICS}) | ALIVE
MAX_BYTES = 8 * 1024 * 1024  # of a body
SESSION = "X-KVTheater-Theater"  # the session that is to answer, or that did


def is_api(path: str) -> bool:
    """Whether a path is the API's."""
    return path.startswith(PREFIX) or path in PATHS


def is_anthropic(path: str) -> bool:
    """Whether answers at a path have Anthropic's shapes."""
    return path == MESSAGES or path.startswith(MESSAGES + "/")


def is_for_keys(path: str) -> bool:
    """Whether an API key opens it, and is asked for where there are keys.

    Metrics are not: they tell of all clients, and who reads them (Prometheus, `kvtheater top`) is none. They are the
    server's, as its page is: open to whoever may open that, with the token where one is needed.
    """
    return is_api(path) and path != METRICS
