"""Files of services' requests, in each format."""

from pathlib import Path

import pytest

from engine.bench.errors import BenchError
from engine.bench.request_files import read_requests

FILES = {
    "azure": (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
    ),
    "burstgpt": (
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,374,44,418,Conversation log\n9.3145790,GPT-4,396,109,505,API log\n10,GPT-4,7,0,7,API log\n"
    ),
    "mooncake": (
        '{"timestamp": 5000, "input_length": 374, "output_length": 44}\n\n'
        '{"timestamp": 9314.579, "input_length": 396, "output_length": 109}\n'
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_each_format_says_when_and_how_long(name: str, tmp_path: Path) -> None:
    path = tmp_path / "requests"
    path.write_text(FILES[name])
    found = read_requests(path)
    assert (found.format, found.hash_tokens) == (name, None)
    first, second = found.rows
    assert (second.timestamp - first.timestamp) / found.ticks == pytest.approx(4.314579, abs=1e-6)
    assert [(row.input_length, row.output_length) for row in found.rows] == [(374, 44), (396, 109)]
    assert found.num_failed == (name == "burstgpt") and name in found.reading


def test_a_format_that_is_forced_is_kept_to(tmp_path: Path) -> None:
    path = tmp_path / "requests"
    path.write_text(FILES["azure"])
    for other in ("burstgpt", "mooncake", "bailian"):
        with pytest.raises(BenchError, match="requests, line"):
            read_requests(path, other)
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n")
    with pytest.raises(BenchError, match="has no request"):
        read_requests(path)
