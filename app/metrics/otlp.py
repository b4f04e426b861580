"""Export of spans to an OTLP receiver."""

from __future__ import annotations

import logging
import os
from urllib.parse import urlsplit

from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from app.metrics.spans import RequestSpans, provider

PROTOCOL = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"  # environment variable, which vLLM reads too
GRPC_PORT = 4317  # OTLP's default port for gRPC; 4318 is that for HTTP
TRACES = "/v1/traces"
_exporters = logging.getLogger("opentelemetry.exporter")


def spans_to(endpoint: str) -> RequestSpans:
    """Return spans that a thread exports to `endpoint` in batches, so no request waits. Rejected spans are dropped.

    Raises:
        ValueError: the endpoint is invalid, or the protocol unknown.
        ImportError: the exporter is not installed.
    """
    if _exporters.level == logging.NOTSET:
        _exporters.setLevel(logging.ERROR)  # log a dropped batch, but not each attempt
    tracers = provider()
    tracers.add_span_processor(BatchSpanProcessor(exporter(endpoint)))
    return RequestSpans(tracers)


def exporter(endpoint: str) -> SpanExporter:
    """Return the exporter for the protocol in the environment, by default that of the port. Without a path, HTTP uses
    OTLP's default path.
    """
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https", "grpc") or not parts.hostname:
        raise ValueError(f"{endpoint} is not the URL of an OTLP receiver, such as http://localhost:4318")
    by_port = "grpc" if parts.port == GRPC_PORT or parts.scheme == "grpc" else "http/protobuf"
    protocol = os.environ.get(PROTOCOL, by_port)
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc

        over_grpc: SpanExporter = Grpc(endpoint=endpoint, insecure=parts.scheme != "https")
        return over_grpc
    if protocol != "http/protobuf":
        raise ValueError(f"{PROTOCOL} must be grpc or http/protobuf, not {protocol}")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http

    url = endpoint if parts.path.strip("/") else f"{endpoint.rstrip('/')}{TRACES}"
    over_http: SpanExporter = Http(endpoint=url)
    return over_http
