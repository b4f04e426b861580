"""OpenTelemetry spans of finished requests, with the fold's times.

    llm_request        kind SERVER, from arrival to end; vLLM's attributes (0.32, tracing/utils.py) and two of the
    │                  semantic conventions; an event `preempted` for each preemption
    ├─ kvtheater_lane  wait in the queue of the client
    ├─ vllm_queue      wait in the engine's queue (`vllm_` names: vllm-project/vllm#44402)
    ├─ vllm_prefill    until the first token; with a separate decode instance: until the prompt is computed
    ├─ kvtheater_move  until the first token on the decode instance
    └─ vllm_decode     until the last token of the last sequence

Spans contain no text of prompts or outputs. Only spans need the package `opentelemetry-sdk`.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping

from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from app import __version__
from engine.trace.records import StepRecord
from engine.trace.request_account import RequestRow, time_in_queue, time_to_first_token

NANO = 10**9
CLOSE_SECONDS = 3.0
MAX_EXPECTED = 4096  # unfinished requests with a caller's trace


def provider() -> TracerProvider:
    """Return a new tracer provider. The service is named kvtheater unless OTEL_SERVICE_NAME is set."""
    name = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "kvtheater"}
    return TracerProvider(resource=Resource.create({**name, SERVICE_VERSION: __version__}), shutdown_on_exit=False)


class RequestSpans:
    """Spans of finished requests."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("kvtheater", __version__)
        self._expected: OrderedDict[str, Context] = OrderedDict()

    def expect(self, request_id: str, headers: Mapping[str, str]) -> None:
        """Add a request's spans to the trace in its `traceparent` header, if it has one. Any thread may call it."""
        if "traceparent" not in headers:
            return
        carrier = {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}
        self._expected[request_id] = TraceContextTextMapPropagator().extract(carrier)
        while len(self._expected) > MAX_EXPECTED:
            self._expected.popitem(last=False)

    def export(self, request: RequestRow, record: StepRecord) -> None:
        """Export the spans of a request that ended in this record, which was just appended."""
        ended = record.timing.at if request.ended is None else request.ended
        origin = time.time_ns() - _nano(ended)  # start of the log, in nanoseconds since 1970
        span = self._tracer.start_span(
            "llm_request",
            context=self._expected.pop(request.request_id, None),
            kind=SpanKind.SERVER,
            start_time=origin + _nano(request.arrival),
            attributes=dict(_attributes(request, ended)),
        )
        for one in request.preemptions:
            span.add_event("preempted", {"reason": one.reason, "mode": one.mode}, timestamp=origin + _nano(one.at))
        context = set_span_in_context(span)
        for name, start, end in _phases(request, ended):
            child = self._tracer.start_span(name, context=context, start_time=origin + _nano(start))
            child.end(origin + _nano(end))
        if "error" in request.reasons:
            span.set_status(StatusCode.ERROR)
        span.end(origin + _nano(ended))

    def close(self) -> None:
        """Export pending spans within CLOSE_SECONDS, so that a missing receiver does not delay the exit."""
        thread = threading.Thread(target=self._provider.shutdown, name="last-spans", daemon=True)
        thread.start()
        thread.join(CLOSE_SECONDS)


def _nano(seconds: float) -> int:
    return round(seconds * NANO)


def _phases(request: RequestRow, ended: float) -> Iterator[tuple[str, float, float]]:
    """Yield name, start and end of each phase that the request reached. The last phase of an aborted request ends with
    the request.
    """
    if request.queued > request.arrival:
        yield "kvtheater_lane", request.arrival, request.queued
    if request.scheduled is None:
        yield "vllm_queue", request.queued, ended
        return
    scheduled = max(request.queued, request.scheduled)
    yield "vllm_queue", request.queued, scheduled
    if request.first_token is None or request.last_token is None:
        yield "vllm_prefill", scheduled, ended
        return
    prefilled = request.first_token if request.prefilled is None else request.prefilled
    yield "vllm_prefill", scheduled, prefilled
    if prefilled < request.first_token:
        yield "kvtheater_move", prefilled, request.first_token
    yield "vllm_decode", request.first_token, request.last_token


def _attributes(request: RequestRow, ended: float) -> Iterator[tuple[str, AttributeValue]]:
    yield "gen_ai.request.id", request.request_id
    yield "gen_ai.response.model", request.model_name
    yield "gen_ai.request.n", request.n
    yield "gen_ai.request.max_tokens", request.max_tokens
    for name in ("temperature", "top_p"):
        value = request.sampling.get(name)
        if isinstance(value, int | float):
            yield f"gen_ai.request.{name}", float(value)
    yield "gen_ai.usage.num_sequences", request.num_sequences
    yield "gen_ai.usage.prompt_tokens", request.num_prompt_tokens
    yield "gen_ai.usage.completion_tokens", request.num_output_tokens
    yield "gen_ai.usage.cache_read.input_tokens", request.num_cached_tokens
    yield "gen_ai.response.finish_reasons", request.reasons
    yield "gen_ai.latency.e2e", ended - request.arrival
    scheduled, first, last = request.scheduled, request.first_token, request.last_token
    if scheduled is not None:
        yield "gen_ai.latency.time_in_queue", time_in_queue(request.queued, scheduled)
    if scheduled is not None and first is not None and last is not None:
        yield "gen_ai.latency.time_to_first_token", time_to_first_token(request.arrival, first)
        yield "gen_ai.latency.time_in_model_prefill", request.prefill_seconds(first)
        yield "gen_ai.latency.time_in_model_decode", last - first
        yield "gen_ai.latency.time_in_model_inference", last - scheduled
