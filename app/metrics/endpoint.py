"""`GET /metrics`: the counts in Prometheus' text format, or in OpenMetrics if the client accepts that."""

from __future__ import annotations

from functools import partial

from flask import Blueprint, Request, Response
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.exposition import ALLOWUTF8, UNDERSCORES
from prometheus_client.openmetrics.exposition import generate_latest as generate_open_metrics
from prometheus_client.registry import Collector, CollectorRegistry

from app.ground import routing
from app.ground.routing import Route
from app.metrics.exposition import registry_of
from app.metrics.observer import Metrics

OPEN_METRICS = "application/openmetrics-text"


def scrape(registry: CollectorRegistry, request: Request) -> Response:
    """Return the current values of all metrics."""
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    if content_type.startswith(OPEN_METRICS) and content_type.partition("escaping=")[2] in ("", UNDERSCORES):
        # The names need no escaping, but with UNDERSCORES the library changes `vllm:…` to `vllm_…`, in samples only
        # (prometheus/client_python#1177). ALLOWUTF8 leaves valid names unchanged.
        encode = partial(generate_open_metrics, escaping=ALLOWUTF8)
    return Response(encode(registry), content_type=content_type)


def blueprint(metrics: Metrics, *more: Collector) -> Blueprint:
    """Return the blueprint. `more`: collectors of counts that are not from runs."""
    return routing.blueprint("metrics", "", registry_of(metrics, *more), [Route("GET", "/metrics", scrape)])
