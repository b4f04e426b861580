"""Export of spans to an OTLP receiver."""

from __future__ import annotations

import logging
import os
from urllib.parse import urlsplit

from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from app.metrics.spans import RequestSpans, provider

PROTOCOL = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"  # the environment's, as vLLM reads it
GRPC_PORT = 4317  # OTLP's own; over HTTP it is 4318
TRACES = "/v1/traces"
_exporters = logging.getLogger("opentelemetry.exporter")


def spans_to(endpoint: str) -> RequestSpans:
    """Return spans that a thread exports to `endpoint` in batches; rejected ones are dropped, and export blocks no
    request.

    Raises:
        ValueError: it is no address, or the protocol is unknown.
        ImportError: the exporter is not installed.
    """
    if _exporters.level == logging.NOTSET:
        _exporters.setLevel(logging.ERROR)  # that a batch was given up is enough; each attempt would be a line
    made_by = provider()
    made_by.add_span_processor(BatchSpanProcessor(exporter(endpoint)))
    return RequestSpans(made_by)


def exporter(endpoint: str) -> SpanExporter:
    """Return the exporter for the protocol of the environment, else of the port. The default path over HTTP is
    OTLP's.
    """
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https", "grpc") or not parts.hostname:
        raise ValueError(f"{endpoint} is no address of an OTLP receiver, as http://localhost:4318 is one")
    by_port = "grpc" if parts.port == GRPC_PORT or parts.scheme == "grpc" else "http/protobuf"
    protocol = os.environ.get(PROTOCOL, by_port)
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc

        over_grpc: SpanExporter = Grpc(endpoint=endpoint, insecure=parts.scheme != "https")
        return over_grpc
    if protocol != "http/protobuf":
        raise ValueError(f"{PROTOCOL} is {protocol}; grpc and http/protobuf are known")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http

    whole = endpoint if parts.path.strip("/") else f"{endpoint.rstrip('/')}{TRACES}"
    over_http: SpanExporter = Http(endpoint=whole)
    return over_http
