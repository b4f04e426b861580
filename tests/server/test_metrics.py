"""`GET /metrics` of a server: all sessions since it started, for vLLM's board."""

import re
from collections.abc import Callable, Iterable

import pytest
import requests
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from app.ground.settings import ApiSettings
from app.metrics import names
from app.metrics.http import HttpRequests
from app.session.closing import Closing
from engine.config import EngineConfig
from tests.server.conftest import Client, Server, wait_for

# The series that the panels of vLLM's board ask for by `model_name` (examples/observability/prometheus_grafana,
# commit 4b5c627), in its order; and those of its newer board of the KV cache that have to do with one engine.
BOARD = {
    "E2E Request Latency": ["vllm:e2e_request_latency_seconds_bucket", "vllm:e2e_request_latency_seconds_sum"],
    "Token Throughput": ["vllm:prompt_tokens_total", "vllm:generation_tokens_total"],
    "Inter Token Latency": ["vllm:inter_token_latency_seconds_bucket", "vllm:inter_token_latency_seconds_count"],
    "Scheduler State": ["vllm:num_requests_running", "vllm:num_requests_waiting"],
    "Time To First Token Latency": ["vllm:time_to_first_token_seconds_bucket", "vllm:time_to_first_token_seconds_sum"],
    "Cache Utilization": ["vllm:kv_cache_usage_perc"],
    "Request Prompt Length": ["vllm:request_prompt_tokens_bucket"],
    "Request Generation Length": ["vllm:request_generation_tokens_bucket"],
    "Finish Reason": ["vllm:request_success_total"],
    "Queue Time": ["vllm:request_queue_time_seconds_sum"],
    "Requests Prefill and Decode Time": [
        "vllm:request_prefill_time_seconds_sum",
        "vllm:request_decode_time_seconds_sum",
    ],
    "Max Generation Token in Sequence Group": ["vllm:request_max_num_generation_tokens_sum"],
    "Prefix cache hit rate": ["vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"],
    "Cached prompt tokens": ["vllm:prompt_tokens_cached_total", "vllm:prompt_tokens_total"],
    "Preemptions / s": ["vllm:num_preemptions_total"],
    "Waiting for capacity": ["vllm:num_requests_waiting_by_reason"],
    "Status": ["vllm:engine_sleep_state"],
}


def scraped(url: str, **headers: str) -> dict[str, list[Sample]]:
    """Return every sample by its name on the wire."""
    answer = requests.get(f"{url}/metrics", headers=headers, timeout=10)
    assert answer.status_code == 200, answer.text
    found: dict[str, list[Sample]] = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


def total(samples: dict[str, list[Sample]], name: str, **labels: str) -> float:
    """Return the sum of the series with these labels; there must be one."""
    values = [s.value for s in samples[name] if labels.items() <= s.labels.items()]
    assert values, (name, labels)
    return sum(values)


def play(client: Client, theater: str, prompts: list[str], max_tokens: int = 3) -> None:
    """Step the run to its end."""
    client.do(
        "submit", theater=theater, prompts=[{"text": text} for text in prompts], sampling={"max_tokens": max_tokens}
    )
    client.do("step", theater=theater, count=100)


def test_no_panel_of_vllms_board_is_empty(client: Client, theater: str, server: Server) -> None:
    play(client, theater, ["abc", "de"])
    samples = scraped(server.url)
    for panel, wanted in BOARD.items():
        for name in wanted:
            found = [s for s in samples.get(name, []) if s.labels["model_name"] == "fake"]
            assert found, f"{panel}: {name}"
            assert all(s.labels["engine"] == "0" for s in found)
    for name in ("e2e_request_latency", "time_to_first_token", "inter_token_latency"):
        assert total(samples, f"vllm:{name}_seconds_count") > 0


def test_counters_cover_all_theaters_of_a_model_and_never_decrease(
    client: Client, theater: str, server: Server
) -> None:
    """Prompts of 3 and 2 tokens get 3 outputs each; then a reset, another session, and a closed one."""
    play(client, theater, ["abc", "de"])
    first = scraped(server.url)
    assert total(first, "vllm:prompt_tokens_total", model_name="fake") == 5
    assert total(first, "vllm:generation_tokens_total") == 6
    assert total(first, "vllm:request_success_total", finished_reason="length") == 2
    assert total(first, "vllm:request_success_total", finished_reason="stop") == 0
    client.do("reset", theater=theater)
    assert total(scraped(server.url), "vllm:generation_tokens_total") == 6
    other = client.do("create", name="another")["theater"]
    play(client, other, ["fgh"])
    play(client, theater, ["ij"], max_tokens=2)
    both = scraped(server.url)
    assert total(both, "vllm:generation_tokens_total") == 6 + 3 + 2
    assert total(both, "vllm:prompt_tokens_total") == 5 + 3 + 2
    assert len(both["vllm:generation_tokens_total"]) == 1, "theaters are no label"
    server.theaters.get(other).close(Closing("displaced"))
    last = scraped(server.url)
    for name, samples in both.items():
        if name.startswith(("vllm:", "kvtheater:")) and name.endswith(("_total", "_count", "_sum", "_bucket")):
            assert [(s.labels, s.value) for s in last[name]] == [(s.labels, s.value) for s in samples], name


def test_gauges_cover_present_runs(client: Client, theater: str, server: Server) -> None:
    """Two sequences of 3 tokens take a block of 4 each, of 256 blocks in either session. A reset empties one."""
    other = client.do("create", name="another")["theater"]
    client.do("submit", theater=theater, prompts=[{"text": "abc"}, {"text": "def"}], sampling={"max_tokens": 9})
    client.do("submit", theater=other, prompts=[{"text": "ghi"}], sampling={"max_tokens": 9})
    client.do("step", theater=theater, count=1)  # the fake engine admits one a step
    samples = scraped(server.url)
    assert total(samples, "vllm:num_requests_running") == 1
    assert total(samples, "vllm:num_requests_waiting") == 2
    assert total(samples, "vllm:num_requests_waiting_by_reason", reason="capacity") == 2
    assert total(samples, "vllm:kv_cache_usage_perc") == 1 / 512
    assert total(samples, "kvtheater:kv_cache_token_usage_perc") == 3 / 2048
    assert total(samples, "kvtheater:kv_cache_usage_with_cached_perc") == 1 / 512
    (config,) = samples["vllm:cache_config_info"]
    assert (config.value, config.labels["block_size"], config.labels["num_gpu_blocks"]) == (1, "4", "256")
    client.do("reset", theater=theater)
    samples = scraped(server.url)
    assert total(samples, "vllm:num_requests_running") == 0
    assert total(samples, "vllm:num_requests_waiting") == 1
    client.do("reset", theater=other)
    assert total(scraped(server.url), "vllm:kv_cache_usage_perc") == 0


def test_an_abort_is_counted_without_latencies(client: Client, theater: str, server: Server) -> None:
    request = client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 9})["requests"][0]
    client.do("step", theater=theater, count=2)
    client.do("abort", theater=theater, request_id=request["request_id"])
    samples = scraped(server.url)
    assert total(samples, "vllm:request_success_total", finished_reason="abort") == 1
    assert total(samples, "vllm:e2e_request_latency_seconds_count") == 0
    assert total(samples, "vllm:num_requests_running") == 0


# as Prometheus 2 and 3 ask
ACCEPT_2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,*/*;q=0.1"
ACCEPT_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3"


@pytest.mark.parametrize("accept", ["application/openmetrics-text", ACCEPT_2, ACCEPT_3])
def test_every_metric_of_the_table_is_there_in_both_formats(
    client: Client, theater: str, server: Server, accept: str
) -> None:
    play(client, theater, ["abc"])
    plain = requests.get(f"{server.url}/metrics", timeout=10)
    assert plain.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    opened = requests.get(f"{server.url}/metrics", headers={"Accept": accept}, timeout=10)
    assert opened.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert opened.text.endswith("# EOF\n")
    for metric in names.METRICS:
        suffix = {"counter": "_total", "gauge": "", "histogram": "_bucket"}[metric.kind]
        for text in (plain.text, opened.text):
            assert re.search(rf"^{metric.name}{suffix}\{{.*model_name=\"fake\".*\}} ", text, re.MULTILINE), metric.name
    assert "process_resident_memory_bytes" in plain.text
    families: Iterable[Metric] = open_metrics(opened.text)  # type: ignore[no-untyped-call]
    typed = {family.name: family.type for family in families}
    assert {metric.name: metric.kind for metric in names.METRICS}.items() <= typed.items()


def test_buckets_are_cumulative_and_end_with_all(client: Client, theater: str, server: Server) -> None:
    """Prompts of 3 and 12 tokens are counted under the bounds 1, 2, 5, 10, 20, ... up to the model's 1024 positions."""
    play(client, theater, ["abc"])
    play(client, theater, ["abcdefghijkl"])
    buckets = {s.labels["le"]: s.value for s in scraped(server.url)["vllm:request_prompt_tokens_bucket"]}
    bounds = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]
    assert buckets == {**dict(zip(map(str, bounds), [0, 0, 1, 1, 2, 2, 2, 2, 2, 2], strict=True)), "+Inf": 2}


def test_metrics_ask_for_the_token_as_the_api_does(make_server: Callable[..., Server]) -> None:
    server = make_server(host="0.0.0.0", token="secret-token")
    for headers, query, status in (
        ({}, "", 401),
        ({"Authorization": "Bearer wrong"}, "", 401),
        ({"Authorization": "Bearer secret-token"}, "", 200),
        ({}, "?token=secret-token", 200),
    ):
        answer = requests.get(f"{server.url}/metrics{query}", headers=headers, timeout=10, allow_redirects=False)
        assert answer.status_code == status, (headers, query)


def test_an_error_in_metrics_does_not_stop_the_run(
    client: Client, theater: str, server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr("app.metrics.tally.Tally.observe", broken)
    play(client, theater, ["abc"])
    wait_for(lambda: len(server.theaters.get(theater).run.log) == 4)
    assert [record.message for record in caplog.records] == ["counting a record of fake"]


def test_a_server_without_runs_reports_process_metrics_only(make_server: Callable[..., Server]) -> None:
    samples = scraped(make_server(config=EngineConfig(block_size=4, num_blocks=8)).url)
    assert not [name for name in samples if name.startswith("vllm:")]
    assert samples["process_resident_memory_bytes"][0].value > 0


def test_http_requests_are_counted_by_what_they_asked_for(make_server: Callable[..., Server]) -> None:
    """vLLM's board computes the 5xx ratio from them. A client's arbitrary path creates no series."""
    server = make_server(api=ApiSettings())
    url = server.url
    body = {"model": "fake", "prompt": "abc", "max_tokens": 2}
    for _ in range(2):
        assert requests.post(f"{url}/v1/completions", json=body, timeout=10).status_code == 200
    assert requests.post(f"{url}/v1/completions", json={**body, "model": "none"}, timeout=10).status_code == 404
    for path in ("/api/health", "/api/model", "/nowhere/1", "/nowhere/2", "/health", "/metrics"):
        requests.get(f"{url}{path}", timeout=10)
    requests.request("BREW", f"{url}/nowhere/3", timeout=10)

    def counted() -> dict[tuple[str, str, str], float]:
        return {
            (s.labels["handler"], s.labels["method"], s.labels["status"]): s.value
            for s in scraped(url)["http_requests_total"]
        }

    wait_for(lambda: ("none", "other", "4xx") in counted())  # it is counted when its answer has been sent
    assert counted() == {
        ("/v1/completions", "POST", "2xx"): 2,
        ("/v1/completions", "POST", "4xx"): 1,
        ("/api/", "GET", "2xx"): 2,
        ("none", "GET", "4xx"): 2,
        ("none", "other", "4xx"): 1,
    }
    assert total(scraped(url), "http_request_duration_seconds_count", handler="/v1/completions") == 3
    assert total(scraped(url), "kvtheater:http_refused_total", handler="/v1/completions", status="404") == 1
    assert total(scraped(url), "kvtheater:http_refused_total") == 4


def test_server_errors_are_counted_as_5xx() -> None:
    counts = HttpRequests()
    for status in (500, 503, None):
        counts.record({"REQUEST_METHOD": "POST", "PATH_INFO": "/v1/completions"}, seconds=0.2, status=status)
    counts.record(None, seconds=0.0, status=400)
    counter, refused, durations = counts.collect()
    assert [(s.labels["status"], s.value) for s in refused.samples] == [("500", 1), ("503", 1)]
    assert [(s.labels["status"], s.value) for s in counter.samples] == [("5xx", 2)]
    assert {s.labels["le"]: s.value for s in durations.samples if "le" in s.labels} == {
        "0.1": 0, "0.5": 2, "1.0": 2, "+Inf": 2
    }  # fmt: skip
