"""Metric of the API requests in the clients' queues. Logs do not have them, since they are not submitted yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.metrics.names import ENGINE, LABELS

WAITING = "kvtheater:lane_requests_waiting"
OTHERS = "anonymous"  # label of clients that have no key

Waiting = Callable[[], Iterable[tuple[str, dict[str, int]]]]


class ClientQueueRequests(Collector):
    """Collector of waiting requests, read at each scrape."""

    def __init__(self, waiting: Waiting, clients: Iterable[str]) -> None:
        """Set up the collector. `waiting` returns the waiting requests by client, for each engine of the API.

        `clients`: clients with a series; all others share one, so that requests cannot create series.
        """
        self._waiting = waiting
        self._clients = sorted({*clients}) or [OTHERS]

    def collect(self) -> Iterator[Metric]:
        """Yield the current counts."""
        gauge = GaugeMetricFamily(
            WAITING, "Requests of the API that wait for their client's turn.", labels=[*LABELS, "client"]
        )
        counts: dict[tuple[str, str], int] = {}
        for model, waiting in self._waiting():
            for client in self._clients:
                counts.setdefault((model, client), 0)
            for client, count in waiting.items():
                key = (model, client if client in self._clients else OTHERS)
                counts[key] = counts.get(key, 0) + count
        for (model, client), count in sorted(counts.items()):
            gauge.add_metric([model, ENGINE, client], count)
        yield gauge
