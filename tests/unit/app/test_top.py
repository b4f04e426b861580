"""`kvtheater top`: a server's numbers in a terminal; what it has not said is unknown, never 0."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from app.cli import main
from app.cli.top import drawn
from engine.attach.metrics import Look, read
from tests.unit.attach.metrics_server import MetricsServer, page


def cells(table: Any) -> list[list[str]]:
    """Row by row."""
    return [list(row) for row in zip(*(list(column.cells) for column in table.columns), strict=True)]


def test_one_look_says_what_the_server_says_and_nothing_else() -> None:
    (row,) = cells(drawn("http://x", read(page(3, hits=30, queries=120)), None, 0.0))
    # a quarter of 24 columns; 30 of 120; preemptions and tokens are not in this page
    assert row == ["0", "█" * 6 + "░" * 18 + "  25.0%", "3", "2", "25.0%", "unknown", "unknown", "unknown"]


def test_rates_and_hits_are_those_since_the_look_before() -> None:
    prompt = {"vllm:prompt_tokens_total": 1000.0, "vllm:generation_tokens_total": 50.0}
    hits = {"vllm:prefix_cache_hits_total": 90.0, "vllm:prefix_cache_queries_total": 100.0}
    before = Look(by_rank={0: {**prompt, **hits}})
    now = Look(by_rank={0: {name: value + 10 for name, value in {**prompt, **hits}.items()}})
    (row,) = cells(drawn("http://x", now, before, 2.0))
    assert (row[4], row[6], row[7]) == ("100.0%", "5", "5")
    (row,) = cells(drawn("http://x", before, now, 2.0))  # it began anew: its counters fell
    assert (row[4], row[6], row[7]) == ("90.0%", "–", "–")


def test_a_row_a_rank() -> None:
    numbers = {"vllm:num_requests_running": 1.0}
    table = drawn(
        "http://x", Look(model="m", block_size=16, num_blocks=1000, by_rank={1: numbers, 0: numbers}), None, 0
    )
    assert [row[0] for row in cells(table)] == ["0", "1"]
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table)
    assert "m · pool of a rank: 1,000 blocks of 16 tokens" in console.export_text()


def test_the_command_looks_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    with MetricsServer(page(7)) as server:
        assert main(["top", server.url.removesuffix("/metrics"), "--once"]) == 0
    assert "512 blocks of 32 tokens" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["ftp://x"], "is no address of a server"),
        (["--interval", "0"], "--interval must be from 0.1 to 3600 seconds"),
        (["http://127.0.0.1:1", "--once"], "no metrics from http://127.0.0.1:1/metrics"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["top", *arguments]) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1
