"""Spans of a server's requests, as received over OTLP."""

import argparse
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from app.cli.observing import request_spans
from app.cli.options import UserError
from app.ground.settings import ApiSettings, ServerSettings
from app.models.model_entry import ModelEntry
from app.models.registry import Models
from app.server.application import create_app
from app.server.listener import Listener, bind
from tests.server.fake import FakeModel

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Receiver:
    """Server that stores what is posted to it."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.spans: list[Span] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.paths.append(self.path)
                body = self.rfile.read(int(self.headers["Content-Length"]))
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    for scope in resource.scope_spans:
                        receiver.spans += scope.spans
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.close()


def arguments_of(endpoint: str | None) -> argparse.Namespace:
    return argparse.Namespace(otlp_traces_endpoint=endpoint)


def test_a_request_is_a_tree_of_spans_in_its_callers_trace(receiver: Receiver) -> None:
    """Spans are sent at the latest at the end, so none is lost when the server stops."""
    with request_spans(arguments_of(receiver.url)) as spans:
        settings = ServerSettings(api=ApiSettings())
        listener = Listener(create_app(Models(ModelEntry(FakeModel())), settings, spans=spans), bind("127.0.0.1", 0))
        answer = requests.post(
            f"http://127.0.0.1:{listener.port}/v1/completions",
            json={"model": "fake", "prompt": "a secret", "max_tokens": 3},
            headers={"traceparent": f"00-{TRACE}-{PARENT}-01"},
        )
        listener.close()
    assert answer.status_code == 200, answer.text
    assert receiver.paths[0] == "/v1/traces"
    by_name = {span.name: span for span in receiver.spans}
    assert set(by_name) >= {"llm_request", "vllm_queue", "vllm_prefill", "vllm_decode"}
    root = by_name["llm_request"]
    assert (root.trace_id.hex(), root.parent_span_id.hex()) == (TRACE, PARENT)
    assert root.kind == Span.SpanKind.SPAN_KIND_SERVER
    assert all(span.parent_span_id == root.span_id for span in receiver.spans if span is not root)
    attributes = {pair.key: pair.value for pair in root.attributes}
    assert attributes["gen_ai.request.id"].string_value == answer.headers["X-Request-Id"]
    assert attributes["gen_ai.usage.completion_tokens"].int_value == 3
    assert "secret" not in str(receiver.spans)


def test_without_an_endpoint_there_are_no_spans() -> None:
    with request_spans(arguments_of(None)) as spans:
        assert spans is None


def test_a_missing_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """gRPC is chosen by its port, and its exporter is not among our dependencies."""
    with (
        pytest.raises(UserError, match="opentelemetry-exporter-otlp-proto-grpc"),
        request_spans(arguments_of("http://localhost:4317")),
    ):
        pass
    for name in [name for name in sys.modules if name.startswith(("app.metrics.otlp", "app.metrics.spans"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace.export", None)
    with pytest.raises(UserError, match=r"kvtheater\[otlp\]"), request_spans(arguments_of("http://localhost:4318")):
        pass
