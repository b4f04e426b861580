"""HTTP requests by path and status, from which vLLM's overview dashboard computes the 5xx ratio.

Names, labels and buckets are those of prometheus-fastapi-instrumentator as configured by vLLM 0.32. These counts are
not from logs, since a refused request has no record.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from app.metrics.tally import Histogram

# The label of a path is the path itself, its folder, or "none", so that requests cannot create series.
API = ("/v1/models", "/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/tokenize", "/detokenize")
PATHS = frozenset({*API, "/", "/bench", "/scale"})
FOLDERS = ("/v1/", "/api/", "/static/", "/vendor/", "/words/", "/socket.io/", "/j/")
REFUSED = "kvtheater:http_refused"
UNCOUNTED = frozenset({"/metrics", "/health", "/ping", "/version"})  # requests of monitoring, as in vLLM
METHODS = frozenset({"GET", "HEAD", "POST", "PATCH", "DELETE", "OPTIONS"})
DURATIONS = (0.1, 0.5, 1.0)  # seconds


class HttpRequests(Collector):
    """Collector of a server's requests, read at each scrape. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str, str], int] = {}  # by handler, method, status
        self._refused: dict[tuple[str, str], int] = {}  # by handler, status
        self._durations: dict[tuple[str, str], Histogram] = {}  # by handler, method

    def record(self, environ: Mapping[str, Any] | None, *, seconds: float, status: int | None, **_: Any) -> None:
        """Count a request, unless it could not be read, or its client disconnected before the response began."""
        if environ is None or status is None:
            return
        path, method = str(environ.get("PATH_INFO", "")), str(environ["REQUEST_METHOD"])
        if path in UNCOUNTED:
            return
        handler = handler_of(path)
        method = method if method in METHODS else "other"
        with self._lock:
            key = (handler, method, f"{status // 100}xx")
            self._counts[key] = self._counts.get(key, 0) + 1
            if status >= 400:
                refused = (handler, str(status))
                self._refused[refused] = self._refused.get(refused, 0) + 1
            self._durations.setdefault((handler, method), Histogram(DURATIONS)).observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        counter = CounterMetricFamily(
            "http_requests", "HTTP requests that were answered.", labels=["handler", "method", "status"]
        )
        durations = HistogramMetricFamily(
            "http_request_duration_seconds",
            "Time from a request's head to the end of its response; for a stream, to its last token.",
            labels=["handler", "method"],
        )
        refused = CounterMetricFamily(
            REFUSED,
            "Refused requests by status: 429 = too many requests of a client wait, or a deadline would be missed.",
            labels=["handler", "status"],
        )
        with self._lock:
            for values, count in sorted(self._refused.items()):
                refused.add_metric(values, count)
            for labels, count in sorted(self._counts.items()):
                counter.add_metric(labels, count)
            for handler, histogram in sorted(self._durations.items()):
                durations.add_metric(handler, histogram.cumulative(), histogram.sum)
        yield counter
        yield refused
        yield durations


def handler_of(path: str) -> str:
    """Return the label of a path."""
    if path in PATHS:
        return path
    return next((folder for folder in FOLDERS if path.startswith(folder)), "none")
