"""Request files of services, in each format."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engine.bench.errors import BenchError
from engine.bench.request_files import read_requests
from engine.bench.scenario import find_scenario, scenario_ids, without_paths
from engine.bench.workload import Trace, WorkloadRequest, requests_in, requests_of

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
def test_each_format_gives_arrival_times_and_lengths(name: str, tmp_path: Path) -> None:
    path = tmp_path / "requests"
    path.write_text(FILES[name])
    found = read_requests(path)
    assert (found.format, found.hash_tokens) == (name, None)
    first, second = found.rows
    assert (second.timestamp - first.timestamp) / found.ticks == pytest.approx(4.314579, abs=1e-6)
    assert [(row.input_length, row.output_length) for row in found.rows] == [(374, 44), (396, 109)]
    assert found.num_failed == (name == "burstgpt") and name in found.reading


@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_list_gives_the_same_rows_as_json_lines(indent: int | None, tmp_path: Path) -> None:
    hashed = [
        {"timestamp": n, "input_length": 600, "output_length": 5, "hash_ids": [1, n + 2], "session_id": "a"}
        for n in range(3)
    ]
    chats = [
        {"timestamp": n, "input_length": 30, "output_length": 5, "hash_ids": [1, n], "chat_id": n, "turn": 1,
         "parent_chat_id": -1}
        for n in range(3)
    ]  # fmt: skip
    plain = [json.loads(line) for line in FILES["mooncake"].split("\n") if line]
    for rows in (plain, hashed, chats):
        lines, as_list = tmp_path / "rows.jsonl", tmp_path / "rows.json"
        lines.write_text("\n".join(map(json.dumps, rows)))
        as_list.write_text(json.dumps(rows, indent=indent))
        assert read_requests(as_list) == read_requests(lines)
    as_list.write_text(json.dumps([*plain, {**plain[0], "input_length": 0}]))
    with pytest.raises(BenchError, match=r"rows\.json, row 3: a request needs at least 1 input token"):
        read_requests(as_list)


def test_a_file_of_another_than_the_requested_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "requests"
    path.write_text(FILES["azure"])
    for other in ("burstgpt", "mooncake", "bailian"):
        with pytest.raises(BenchError, match="requests, line"):
            read_requests(path, other)
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n")
    with pytest.raises(BenchError, match="has no request"):
        read_requests(path)


def session_of(*turns: str) -> dict[str, Any]:
    """Return a conversation of turns, each written as `speaker: text`."""
    return {"conversations": [dict(zip(("from", "value"), turn.split(": "), strict=True)) for turn in turns]}


def read_asks(tmp_path: Path, text: str, scale: int = 1) -> list[WorkloadRequest]:
    path = tmp_path / "requests"
    path.write_text(text)
    workload = Trace(name="requests", num_requests=99, scale=scale, most_tokens=9999, stretch=1.0)
    return requests_in(read_requests(path, encode=lambda text: [ord(c) for c in text]), workload, 5000, 0)


def test_each_answered_human_turn_of_a_conversation_is_a_request(tmp_path: Path) -> None:
    conversations = [
        session_of("gpt: old", "human: abc", "gpt: de", "gpt: f", "human: gh", "human: i", "gpt: jkl", "human: m"),
        session_of("system: s", "user: n", "assistant: opq"),
        session_of("human: r", "gpt: "),
    ]
    requests = read_asks(tmp_path, json.dumps(conversations))
    assert [("".join(map(chr, request.prompt)), request.output_tokens, request.after) for request in requests] == [
        ("oldabc", 2, None),
        ("fghi", 3, 0),
        ("sn", 3, None),
    ]
    found = read_requests(tmp_path / "requests", encode=lambda text: [1] * len(text))
    assert found.format == "sharegpt" and found.num_failed == 3
    assert "every conversation begins at once" in found.reading and "1 sent after the previous answer" in found.reading


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ([{"messages": []}], "conversations"),
        ([{"conversations": [{"role": "user", "content": "a"}]}], "`from` and `value`"),
        ([session_of("robot: a")], "conversation 1: from is one of"),
        ([{"conversations": "a"}], "ShareGPT's JSON is a list"),
        ([session_of("human: a")], "has no request"),
    ],
)
def test_invalid_conversations_are_refused(tmp_path: Path, document: Any, error: str) -> None:
    with pytest.raises(BenchError, match=error):
        read_asks(tmp_path, json.dumps(document))


def test_texts_need_a_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "requests"
    path.write_text(json.dumps([session_of("human: a", "gpt: b")]))
    with pytest.raises(BenchError, match="need a tokenizer"):
        read_requests(path)


def row(chat: int, parent: int, when: float, length: int, hashes: list[int]) -> dict[str, Any]:
    return {
        "chat_id": chat, "parent_chat_id": parent, "turn": 1 if parent < 0 else 2, "timestamp": when,
        "input_length": length, "output_length": 16, "hash_ids": hashes,
    }  # fmt: skip


def lines(*rows: dict[str, Any]) -> str:
    return "\n".join(map(json.dumps, rows))


def test_a_chat_continues_its_parent_if_its_hashes_extend_the_parents(tmp_path: Path) -> None:
    """The third row continues the first. The fourth names the first as its parent and has another prompt."""
    requests = read_asks(
        tmp_path,
        lines(
            row(1, -1, 10, 32, [1, 2]), row(2, -1, 11, 32, [1, 3]), row(3, 1, 20, 64, [1, 2, 4, 5]),
            row(4, 1, 21, 64, [6, 7, 8, 9]), row(5, 77, 22, 32, [1, 2]),
        ),
    )  # fmt: skip
    assert [(request.after, request.is_whole, len(request.prompt), request.at) for request in requests] == [
        (None, False, 32, 0), (None, False, 32, 1), (0, False, 16, 10), (0, True, 64, 11), (None, False, 32, 12),
    ]  # fmt: skip


def test_rows_of_a_session_add_their_tokens_after_a_delay(tmp_path: Path) -> None:
    session = {"session_id": "a", "output_length": 8}
    rows = [
        {**session, "timestamp": 500, "input_length": 512, "hash_ids": [1]},
        {**session, "delay": 3000, "input_length": 100, "hash_ids": [2]},
        {"session_id": "b", "timestamp": 1500, "input_length": 512, "output_length": 8, "hash_ids": [1]},
        {**session, "delay": 250, "input_length": 1024, "hash_ids": [2, 3]},
    ]
    requests = read_asks(tmp_path, lines(*rows))
    assert [(request.after, request.think, len(request.prompt), request.at) for request in requests] == [
        (None, 0, 512, 0), (0, 3, 100, 0), (None, 0, 512, 1), (1, 0.25, 1024, 0),
    ]  # fmt: skip
    assert requests[0].prompt == requests[2].prompt
    with pytest.raises(BenchError, match="line 1: it has no timestamp"):
        read_asks(tmp_path, lines(*rows[1:]))


def test_one_conversation_per_line_equals_a_list_of_conversations(tmp_path: Path) -> None:
    conversations = [
        {"id": str(i), "conversations": [{"from": "human", "value": f"ask\u2028 {i}"}, {"from": "gpt", "value": "yes"}]}
        for i in range(3)
    ]
    path = tmp_path / "requests"
    found = []
    for text in (json.dumps(conversations), "\n".join(json.dumps(one, ensure_ascii=False) for one in conversations)):
        path.write_text(text)
        found.append(read_requests(path, encode=lambda text: list(text.encode())))
    assert found[0] == found[1] and found[0].format == "sharegpt" and len(found[0].rows) == 3
    path.write_text(path.read_text() + '\n{"conversations": 1}')
    with pytest.raises(BenchError, match=r"requests, line 4: .* or one per line"):
        read_requests(path, encode=lambda text: [0])


def test_sessions_without_hashes_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "requests"
    row = {"timestamp": 0, "input_length": 40, "output_length": 4, "session_id": "a"}
    path.write_text("\n".join(json.dumps(row) for _ in range(2)))
    assert read_requests(path).reading.endswith("1 sent after the previous answer, with lengths of new tokens only")
    path.write_text("\n".join(json.dumps(row | {"hash_ids": [1]}) for _ in range(2)))
    assert "new tokens" not in read_requests(path).reading


def test_a_users_own_request_file_is_recorded_without_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(FILES["azure"])
    workload = Trace(name=str(path), num_requests=2, scale=1, most_tokens=1000, stretch=1.0)
    requests = requests_of(workload, 1000, 0)
    assert [(len(request.prompt), request.output_tokens) for request in requests] == [(374, 44), (396, 109)]
    with pytest.raises(BenchError, match=r"mine\.csv, line"):
        requests_of(replace(workload, format="burstgpt"), 1000, 0)
    with pytest.raises(BenchError, match="cannot read"):
        requests_of(replace(workload, name=str(tmp_path / "gone.csv")), 1000, 0)
    scenario = find_scenario(scenario_ids()[0])
    custom = replace(scenario, workload={"kind": "trace", "name": str(path)})
    assert without_paths(custom).workload == {"kind": "trace", "name": "mine.csv"}
