"""Questions over a log: the answers by hand, and what a question cannot do."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli import main
from engine.bench.workload import TRACES
from engine.trace.events import Cache, Evict, Preempt
from engine.trace.explain import overview
from engine.trace.log import TraceReader
from engine.trace.query.database import LogDatabase, QueryError
from engine.trace.query.questions import questions
from tests.unit.engine.runs import run

GOLDEN = sorted((Path(__file__).parents[2] / "golden").glob("*.kvtrace"))
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A service of 60 requests on few blocks, simulated: hits, evictions, waits."""
    path = tmp_path_factory.mktemp("query") / "run.kvtrace"
    asked = ["simulate", str(TRACES / "mooncake-conversation.jsonl"), "--model", "llama-2-7b", "--gpu", "a100-80gb"]
    more = ["--scale", "16", "--num-requests", "60", "--num-blocks", "300", "--record", str(path), "--json"]
    assert main([*asked, *more]) == 0
    return path


@pytest.fixture(scope="module")
def asked(served: Path) -> Iterator[LogDatabase]:
    with TraceReader(served) as log, LogDatabase(log) as database:
        yield database


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_every_kept_question_has_an_answer_of_every_log(path: Path) -> None:
    if path.stem == "observed":
        with TraceReader(path) as log, pytest.raises(QueryError, match="does not say its requests"):
            LogDatabase(log)
        return
    with TraceReader(path) as log, LogDatabase(log) as database:
        assert [one for one in questions().values() if not database.ask(one.sql).columns] == []


def test_blocks_evicted_and_computed_again(served: Path, asked: LogDatabase) -> None:
    """By hand: of each eviction the next `cache` with that hash, if it comes within a minute."""
    gone: dict[bytes, list[tuple[float, int]]] = {}
    found = set()
    with TraceReader(served) as log:
        for index in range(len(log)):
            record = log.record(index)
            for op in record.ops:
                if isinstance(op, Evict):
                    gone.setdefault(op.block_hash, []).append((record.timing.at, index))
                elif isinstance(op, Cache):
                    for at, evicted_in in gone.pop(op.block_hash, []):
                        if record.timing.at - at <= 60:
                            found.add((evicted_in, index, op.block_hash.hex()))
    answer = asked.ask(questions()["evicted_again"].sql, 100_000)
    names = [answer.columns.index(name) for name in ("evicted_in", "again_in", "block_hash")]
    assert found and {tuple(row[i] for i in names) for row in answer.rows} == found


def test_a_block_computed_twice_is_worth_pinning(served: Path, asked: LogDatabase) -> None:
    times: dict[str, set[int]] = {}
    with TraceReader(served) as log:
        for index in range(len(log)):
            for op in log.record(index).ops:
                if isinstance(op, Cache):
                    times.setdefault(op.block_hash.hex(), set()).add(index)
    answer = asked.ask(questions()["worth_pinning"].sql, 100_000)
    again = {row[answer.columns.index("block_hash")]: row[0] for row in answer.rows}
    assert again and again == {name: len(found) for name, found in times.items() if len(found) > 1}


def test_who_was_preempted_twice(tmp_path: Path) -> None:
    path = tmp_path / "run.kvtrace"
    run("preempting", path).close()
    counts: dict[int, int] = {}
    with TraceReader(path) as log, LogDatabase(log) as database:
        for index in range(len(log)):
            for op in log.record(index).ops:
                if isinstance(op, Preempt):
                    counts[op.seq_id] = counts.get(op.seq_id, 0) + 1
        answer = database.ask(questions()["preempted_twice"].sql)
    assert {row[1]: row[2] for row in answer.rows} == {i: count for i, count in counts.items() if count > 1}


def test_requests_are_those_of_explain(served: Path, asked: LogDatabase) -> None:
    with TraceReader(served) as log:
        told = {
            one.request_id: (one.figures.num_cached_tokens, one.figures.ttft, one.tpot)
            for one in overview(log).sequences
        }
    rows = asked.ask("SELECT request_id, cached_tokens, ttft, tpot FROM requests").rows
    assert len(rows) == 60 and {row[0]: row[1:] for row in rows} == told


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("DELETE FROM steps", "only reads"),
        ("INSERT INTO steps (record) VALUES (1)", "only reads"),
        ("CREATE TABLE mine (a)", "only reads"),
        ("ATTACH '/tmp/mine.db' AS mine", "only reads"),
        ("PRAGMA journal_mode = WAL", "only reads"),
        ("VACUUM INTO '/tmp/mine.db'", "only reads"),
        ("SELECT load_extension('/tmp/mine')", "only reads"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("SELECT zeroblob(100000000)", "too big"),
        ("SELECT hex(zeroblob(500000)) FROM steps", "longer than 8 MiB"),
        ("SELECT " + "hex(zeroblob(500000))," * 99 + "1", "too many columns"),
        ("SELECT absent FROM steps", "no such column: absent"),
        ("", "begins with SELECT"),
        ("-- nothing", "begins with SELECT"),
        ("SELECT " + "1," * 20_000 + "1", "at most"),
    ],
)
def test_a_question_only_reads(asked: LogDatabase, sql: str, says: str) -> None:
    with pytest.raises(QueryError, match=says):
        asked.ask(sql)
    assert asked.ask("SELECT count(*) FROM requests").rows == [(60,)]


def test_a_question_without_end_is_ended(asked: LogDatabase) -> None:
    with pytest.raises(QueryError, match=r"longer than 0\.2 s"):
        asked.ask(ENDLESS, seconds=0.2)
    assert asked.ask("SELECT 1").rows == [(1,)]


def test_at_most_so_many_rows(asked: LogDatabase) -> None:
    answer = asked.ask("SELECT record FROM steps", 3)
    assert len(answer.rows) == 3 and answer.is_cut
    assert not asked.ask("SELECT record FROM steps LIMIT 3", 3).is_cut


def test_the_command(served: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "query", str(served), "--lang", "zh"]) == 0
    assert "被抢占不止一次的请求" in capsys.readouterr().out
    assert main(["trace", "query", str(served), "--sql", "SELECT count(*) AS n FROM requests", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"columns": ["n"], "rows": [[60]], "is_cut": False}
    assert main(["trace", "query", str(served), "slowest_steps", "--limit", "2"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert main(["trace", "query", str(served), "--sql", "DROP TABLE steps"]) == 2
    assert "only reads" in capsys.readouterr().err


def test_a_disk_that_is_full_is_a_sentence(
    served: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As SQLite says it, when the file of the tables cannot grow."""
    connect = sqlite3.connect

    def small(*arguments: object, **more: object) -> sqlite3.Connection:
        connection = connect(*arguments, **more)  # type: ignore[call-overload]
        connection.execute("PRAGMA max_page_count = 8")
        return connection  # type: ignore[no-any-return]

    monkeypatch.setattr("engine.trace.query.database.sqlite3.connect", small)
    assert main(["trace", "query", str(served), "slowest_steps"]) == 2
    assert "the tables cannot be written: database or disk is full" in capsys.readouterr().err
