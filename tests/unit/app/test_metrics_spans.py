"""Spans of requests, created by the real tracer and exported to memory."""

import time

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from app.metrics import otlp
from app.metrics.spans import MAX_EXPECTED, RequestSpans, provider
from engine.trace.records import Memory, StepRecord, Timing
from engine.trace.request_account import Preempted, RequestRow
from tests.unit.app.metrics_runs import folded, recorded

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Exported:
    """Request spans with an in-memory exporter."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        tracer = provider()
        tracer.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.spans = RequestSpans(tracer)

    @property
    def all(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    @property
    def root(self) -> ReadableSpan:
        (root,) = (span for span in self.all if span.name == "llm_request")
        return root

    def seconds(self) -> dict[str, tuple[float, float]]:
        """Return the start and end of each span, in seconds since the request arrived."""
        assert self.root.start_time is not None
        return {
            span.name: ((span.start_time or 0) / 1e9 - began, (span.end_time or 0) / 1e9 - began)
            for began in [self.root.start_time / 1e9]
            for span in self.all
        }


@pytest.fixture
def exported() -> Exported:
    return Exported()


def request(**fields: object) -> RequestRow:
    """Return a request that arrives at 10 s, is queued at 10.25, scheduled at 10.5, and has tokens from 11 to 13."""
    found = RequestRow(
        request_id="cmpl-1", model_name="bundled", arrival=10.0, queued=10.25, num_prompt_tokens=7, max_tokens=16,
        sampling={"n": 2, "temperature": 0.5, "top_p": 1.0, "stop": ["x"]}, scheduled=10.5, first_token=11.0,
        last_token=13.0, ended=13.0, num_cached_tokens=4, num_output_tokens=9, num_sequences=2,
        reasons=["stop", "length"],
    )  # fmt: skip
    for name, value in fields.items():
        setattr(found, name, value)
    return found


def record(at: float) -> StepRecord:
    memory = Memory.counted(
        num_blocks=1, block_size=1, blocks_held=0, blocks_cached=0, tokens_held=0, tokens_logical=0,
        kv_bytes_per_token=1,
    )  # fmt: skip
    return StepRecord(index=0, kind="step", step=1, timing=Timing(at=at), memory=memory)


def test_a_requests_span_contains_the_spans_of_its_phases(exported: Exported) -> None:
    before = time.time()
    exported.spans.export(request(), record(13.5))
    root = exported.root
    assert root.kind == SpanKind.SERVER and root.context is not None
    for span in exported.all:
        assert span is root or (span.parent is not None and span.parent.span_id == root.context.span_id)
    phases = {
        "kvtheater_lane": (0, 0.25),
        "vllm_queue": (0.25, 0.5),
        "vllm_prefill": (0.5, 1),
        "vllm_decode": (1, 3),
        "llm_request": (0, 3),
    }
    assert exported.seconds() == {name: pytest.approx(interval) for name, interval in phases.items()}
    assert root.end_time is not None
    assert before - 0.01 <= root.end_time / 1e9 <= time.time() + 0.01, "it ended just now"


def test_attributes_have_vllms_names_and_contain_no_text(exported: Exported) -> None:
    exported.spans.export(request(), record(13.5))
    assert dict(exported.root.attributes or {}) == {
        "gen_ai.request.id": "cmpl-1",
        "gen_ai.response.model": "bundled",
        "gen_ai.request.n": 2,
        "gen_ai.request.max_tokens": 16,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 1.0,
        "gen_ai.usage.num_sequences": 2,
        "gen_ai.usage.prompt_tokens": 7,
        "gen_ai.usage.completion_tokens": 9,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.response.finish_reasons": ("stop", "length"),
        "gen_ai.latency.e2e": 3.0,
        "gen_ai.latency.time_in_queue": 0.25,
        "gen_ai.latency.time_to_first_token": 1.0,
        "gen_ai.latency.time_in_model_prefill": 0.5,
        "gen_ai.latency.time_in_model_decode": 2.0,
        "gen_ai.latency.time_in_model_inference": 2.5,
    }
    assert exported.root.resource.attributes["service.name"] == "kvtheater"


@pytest.mark.parametrize(
    ("times", "phases"),
    [
        ({"scheduled": None, "first_token": None, "last_token": None}, ["vllm_queue"]),
        ({"first_token": None, "last_token": None}, ["vllm_queue", "vllm_prefill"]),
    ],
)
def test_the_last_phase_of_an_aborted_request_ends_with_it(
    exported: Exported, times: dict[str, None], phases: list[str]
) -> None:
    exported.spans.export(request(**times, arrival=10.25, ended=12.0, reasons=["abort"]), record(12.0))
    assert [span.name for span in exported.all if span.name != "llm_request"] == phases
    assert exported.seconds()[phases[-1]][1] == pytest.approx(1.75)
    assert "gen_ai.latency.time_to_first_token" not in dict(exported.root.attributes or {})


def test_the_span_of_a_failed_request_has_status_error(exported: Exported) -> None:
    exported.spans.export(request(reasons=["error"]), record(13.0))
    assert exported.root.status.status_code == StatusCode.ERROR


def test_preemptions_are_events_at_their_time(exported: Exported) -> None:
    exported.spans.export(request(preemptions=[Preempted(12.0, "last_admitted", "swap")]), record(13.0))
    (event,) = exported.root.events
    assert event.name == "preempted"
    assert dict(event.attributes or {}) == {"reason": "last_admitted", "mode": "swap"}
    assert exported.root.start_time is not None and (event.timestamp - exported.root.start_time) / 1e9 == pytest.approx(
        2
    )


def test_a_callers_trace_is_continued(exported: Exported) -> None:
    """Spans join the trace of the request's header. At most MAX_EXPECTED traces are remembered."""
    exported.spans.expect("cmpl-1", {"traceparent": PARENT})
    exported.spans.expect("cmpl-2", {})
    exported.spans.export(request(), record(13.0))
    root = exported.root
    assert root.context is not None and root.parent is not None
    assert f"{root.context.trace_id:032x}" == PARENT[3:35] and f"{root.parent.span_id:016x}" == PARENT[36:52]
    for i in range(MAX_EXPECTED + 5):
        exported.spans.expect(f"never-{i}", {"traceparent": PARENT})
    assert len(exported.spans._expected) == MAX_EXPECTED


@pytest.mark.parametrize("name", ["preempting", "swapping"])
def test_a_run_exports_one_span_tree_per_request(exported: Exported, name: str) -> None:
    """Each child lies within its parent, and preemptions and tokens add up to those of the log."""
    header, records = recorded(name)
    _, _, ended = folded(header, records)
    for one in ended:
        exported.spans.export(one, records[-1])
    roots = {span.context.span_id: span for span in exported.all if span.name == "llm_request" and span.context}
    assert len(roots) == len(ended)
    for span in exported.all:
        assert span.start_time is not None and span.end_time is not None and span.start_time <= span.end_time
        if span.parent is not None:
            root = roots[span.parent.span_id]
            assert (root.start_time or 0) <= span.start_time and span.end_time <= (root.end_time or 0) + 1
    preempted = sum(type(op).__name__ == "Preempt" for r in records for op in r.ops)
    assert sum(len(root.events) for root in roots.values()) == preempted > 0
    sampled = sum(type(op).__name__ == "Sample" for r in records for op in r.ops)
    tokens = [dict(root.attributes or {})["gen_ai.usage.completion_tokens"] for root in roots.values()]
    assert sum(count for count in tokens if isinstance(count, int)) == sampled


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://localhost:4318", "http://localhost:4318/v1/traces"),
        ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
        ("https://collector/otlp/v1/traces", "https://collector/otlp/v1/traces"),
    ],
)
def test_an_endpoint_without_a_path_gets_the_otlp_path(endpoint: str, url: str) -> None:
    assert vars(otlp.exporter(endpoint))["_endpoint"] == url


@pytest.mark.parametrize("endpoint", ["localhost:4318", "ftp://localhost", "http://", ""])
def test_invalid_endpoints_are_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match="is not the URL"):
        otlp.exporter(endpoint)


def test_unknown_protocols_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(otlp.PROTOCOL, "carrier/pigeon")
    with pytest.raises(ValueError, match="carrier/pigeon"):
        otlp.exporter("http://localhost:4318")
