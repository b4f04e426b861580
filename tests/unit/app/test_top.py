"""`kvtheater top` shows a server's metrics in a terminal. Unreported values are unknown, never 0."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.cli import main
from app.cli.top import Screen
from app.cli.top_tables import draw
from engine.observe.monitor.metrics import MetricsError, MetricsReading, parse_metrics
from tests.unit.monitor.metrics_server import MetricsServer, page

VLLM = Path(__file__).parents[1] / "monitor" / "wire" / "vllm-0.32.0.prom"
SERVER = "vllm:num_requests_running"


def tables(frame: Any) -> dict[str, list[dict[str, str]]]:
    """Return each table's rows, by the header of its second column."""
    found = {}
    for table in (one for one in frame.renderables if isinstance(one, Table)):
        names = [str(column.header) for column in table.columns]
        rows = zip(*(column.cells for column in table.columns), strict=True)
        found[names[1]] = [dict(zip(names, map(str, row), strict=True)) for row in rows]
    return found


def words(frame: Any) -> str:
    return "\n".join(str(one) for one in frame.renderables if isinstance(one, Text))


def test_one_sample_shows_only_reported_metrics() -> None:
    found = tables(draw("http://x", parse_metrics(page(3, hits=30, queries=120)), None, 0.0))
    # 6 of 24 columns are filled and 30 of 120 queries hit; the other metrics are not in this page
    assert found == {
        "held by blocks": [
            {
                "rank": "0",
                "held by blocks": "█" * 6 + "░" * 18 + "  25.0%",
                **dict.fromkeys(("by tokens", "evictions", "/s"), "unknown"),
            }
        ],
        "running": [
            {
                "rank": "0",
                **{"running": "3", "waiting": "2", "hits": "25.0%"},
                **dict.fromkeys(("preemptions", "prompt/s", "generated/s"), "unknown"),
            }
        ],
    }


def test_rates_and_hits_are_computed_since_the_previous_sample() -> None:
    prompt = {"vllm:prompt_tokens_total": 1000.0, "vllm:generation_tokens_total": 50.0}
    hits = {"vllm:prefix_cache_hits_total": 90.0, "vllm:prefix_cache_queries_total": 100.0}
    before = MetricsReading(by_rank={0: {**prompt, **hits}})
    now = MetricsReading(by_rank={0: {name: value + 10 for name, value in {**prompt, **hits}.items()}})
    (row,) = tables(draw("http://x", now, before, 2.0))["running"]
    assert (row["hits"], row["prompt/s"], row["generated/s"]) == ("100.0%", "5", "5")
    (row,) = tables(draw("http://x", before, now, 2.0))["running"]  # counters fall after a restart
    assert (row["hits"], row["prompt/s"], row["generated/s"]) == ("90.0%", "–", "–")
    # after a restart no counter gives a rate, even one that exceeds its previous value
    part = MetricsReading(by_rank={0: {**prompt, **hits, "vllm:prefix_cache_queries_total": 400.0}})
    (row,) = tables(draw("http://x", part, now, 2.0))["running"]
    assert (row["hits"], row["prompt/s"]) == ("22.5%", "–")


def test_each_rank_has_a_row() -> None:
    numbers = {SERVER: 1.0}
    frame = draw(
        "http://x", MetricsReading(model="m", block_size=16, num_blocks=1000, by_rank={1: numbers, 0: numbers}), None, 0
    )
    assert [row["rank"] for row in tables(frame)["running"]] == ["0", "1"]
    assert words(frame) == "m · pool of a rank: 1,000 blocks of 16 tokens"


def test_the_servers_own_metrics_and_vllms_are_both_shown() -> None:
    text = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 4
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
# TYPE kvtheater:kv_cache_token_usage_perc gauge
kvtheater:kv_cache_token_usage_perc{engine="0",model_name="m"} 0.375
# TYPE kvtheater:evictions_total counter
kvtheater:evictions_total{engine="0",model_name="m"} 1200
# TYPE kvtheater:preemptions_total counter
kvtheater:preemptions_total{engine="0",mode="recompute",model_name="m",reason="last_scheduled"} 3
kvtheater:preemptions_total{engine="0",mode="swap",model_name="m",reason="lowest_priority"} 7
kvtheater:preemptions_total{engine="0",mode="swap",model_name="m",reason="only_one"} 0
# TYPE kvtheater:lane_requests_waiting gauge
kvtheater:lane_requests_waiting{client="a \\"b\\"",engine="0",model_name="m"} 2
kvtheater:lane_requests_waiting{client="long",engine="0",model_name="m"} 40
# TYPE kvtheater:http_refused_total counter
kvtheater:http_refused_total{handler="/",status="404"} 1
"""
    found = tables(draw("http://x", parse_metrics(text), None, 0.0))
    (pool,) = found["held by blocks"]
    assert (pool["by tokens"], pool["evictions"], pool["/s"]) == ("37.5%", "1,200", "–")
    assert found["sequences"] == [
        {"preempted, how and why": "swap, lowest_priority", "sequences": "7"},
        {"preempted, how and why": "recompute, last_scheduled", "sequences": "3"},
    ]
    assert [list(row.values()) for row in found["waiting for its turn"]] == [["long", "40"], ['a "b"', "2"]]
    idle = parse_metrics(
        '# TYPE kvtheater:http_refused_total counter\nkvtheater:http_refused_total{handler="/",status="404"} 1\n'
    )
    assert "nothing has run there" in words(draw("http://x", idle, None, 0.0))


def test_vllms_metrics_fit_a_terminal_of_80_columns() -> None:
    frame = draw("http://x", parse_metrics(VLLM.read_text("utf-8")), None, 0.0)
    (pool,), (queries,) = tables(frame)["held by blocks"], tables(frame)["running"]
    assert pool["held by blocks"].endswith("%") and pool["evictions"] == "unknown"  # vLLM counts none
    assert "unknown" not in queries.values()
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(frame)
    assert "…" not in console.export_text()


def test_a_failed_sample_is_reported_and_the_next_continues() -> None:
    counter = '# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{{engine="0",model_name="m"}} {}\n'
    clock = iter([0.0, 5.0, 10.0, 12.0]).__next__
    with MetricsServer(page(7) + counter.format(100)) as server:
        screen = Screen(server.url, clock)
        server.broken = True
        screen.update()
        assert "since then no metrics from" in words(screen.frame)
        assert tables(screen.frame)["running"][0]["running"] == "7"  # the previous value
        server.broken, server.text = False, page(8) + counter.format(300)
        screen.update()
        (row,) = tables(screen.frame)["running"]
        assert (row["running"], row["prompt/s"]) == ("8", "20")  # 200 in the 10 s since the last successful sample
        assert words(screen.frame).count("\n") == 0
        server.text = page(1) + counter.format(5)
        screen.update()
        assert "the server restarted" in words(screen.frame)
        assert tables(screen.frame)["running"][0]["prompt/s"] == "–"


def test_a_connection_closed_during_the_response_is_an_error() -> None:
    with MetricsServer(page(7)) as server:
        server.broken = True
        with pytest.raises(MetricsError, match="no metrics from"):
            Screen(server.url)


def test_the_once_flag_prints_one_sample(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with MetricsServer(page(7)) as server:
        assert main(["top", server.url.removesuffix("/metrics"), "--once"]) == 0
    assert "512 blocks of 32 tokens" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["ftp://x"], "is not a server's address"),
        (["--interval", "0"], "--interval must be from 0.1 to 3600 seconds"),
        (["http://127.0.0.1:1", "--once"], "no metrics from http://127.0.0.1:1/metrics"),
    ],
)
def test_invalid_arguments_of_top_are_refused(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["top", *arguments]) == 2
    output = capsys.readouterr().err
    assert sentence in output and output.count("\n") == 1
