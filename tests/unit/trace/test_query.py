"""Queries over a log have the expected rows, and other statements are refused."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli import main
from engine.bench.workload import TRACES
from engine.observe.monitor.observed_log import ObservedLog, header_of
from engine.observe.monitor.sequence import Break, Message
from engine.simulate.replay_inputs import read_decisions
from engine.simulate.what_if import FigureCounter
from engine.trace.derived_file import DerivedFileError
from engine.trace.explain import overview
from engine.trace.log import TraceReader
from engine.trace.operations import Cache, Evict, Fork, Preempt, Submit
from engine.trace.query import table_cache as module
from engine.trace.query.database import LogDatabase, QueryError
from engine.trace.query.questions import questions
from engine.trace.query.table_cache import CachedTables, make
from tests.unit.engine.runs import CONFIGS, run
from tests.unit.monitor.publisher import message, removed, stored

GOLDEN = sorted((Path(__file__).parents[2] / "golden").glob("*.kvtrace"))
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


@pytest.fixture(scope="module")
def run_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Simulate a service of 60 requests on few blocks, with hits, evictions and waits."""
    path = tmp_path_factory.mktemp("query") / "run.kvtrace"
    arguments = ["simulate", str(TRACES / "mooncake-conversation.jsonl"), "--model", "llama-2-7b", "--gpu", "a100-80gb"]
    options = ["--scale", "16", "--num-requests", "60", "--num-blocks", "300", "--record", str(path), "--json"]
    assert main([*arguments, *options]) == 0
    return path


@pytest.fixture(scope="module")
def database(run_log: Path) -> Iterator[LogDatabase]:
    with TraceReader(run_log) as log, LogDatabase(log) as database:
        yield database


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_every_predefined_query_has_an_answer_for_every_log(path: Path) -> None:
    with TraceReader(path) as log, LogDatabase(log) as database:
        applicable = [one for one in questions().values() if one.observed is (log.header.observed is not None)]
        assert len(applicable) >= 5 and [one for one in applicable if not database.ask(one.sql).columns] == []


def test_blocks_computed_again_within_a_minute_are_those_of_the_log(run_log: Path, database: LogDatabase) -> None:
    """The expected rows have the next `cache` of each evicted hash within a minute."""
    evicted: dict[bytes, list[tuple[float, int]]] = {}
    found = set()
    with TraceReader(run_log) as log:
        for index in range(len(log)):
            record = log.record(index)
            for op in record.ops:
                if isinstance(op, Evict):
                    evicted.setdefault(op.block_hash, []).append((record.timing.at, index))
                elif isinstance(op, Cache):
                    for at, evicted_in in evicted.pop(op.block_hash, []):
                        if record.timing.at - at <= 60:
                            found.add((evicted_in, index, op.block_hash.hex()))
    answer = database.ask(questions()["evicted_again"].sql, 100_000)
    names = [answer.columns.index(name) for name in ("evicted_in", "again_in", "block_hash")]
    assert found and {tuple(row[i] for i in names) for row in answer.rows} == found


def test_blocks_worth_pinning_are_those_computed_twice(run_log: Path, database: LogDatabase) -> None:
    times: dict[str, set[int]] = {}
    with TraceReader(run_log) as log:
        for index in range(len(log)):
            for op in log.record(index).ops:
                if isinstance(op, Cache):
                    times.setdefault(op.block_hash.hex(), set()).add(index)
    answer = database.ask(questions()["worth_pinning"].sql, 100_000)
    again = {row[answer.columns.index("block_hash")]: row[0] for row in answer.rows}
    assert again and again == {name: len(found) for name, found in times.items() if len(found) > 1}


@pytest.mark.parametrize("name", ["swapping", "outside", "instances"])
def test_content_copied_into_the_pool_is_not_counted_as_computed(name: str, tmp_path: Path) -> None:
    """A prefix of full blocks is computed in each record whose batch has the prefix's last position."""
    path = tmp_path / "run.kvtrace"
    if name in CONFIGS:
        run(name, path).close()
    else:
        shutil.copy(Path(__file__).parents[2] / "golden" / f"{name}.kvtrace", path)
    texts: dict[int, list[int]] = {}
    prefixes: dict[bytes | None, tuple[int, ...]] = {None: ()}
    computed: dict[tuple[int, ...], set[int]] = {}
    with TraceReader(path) as log, LogDatabase(log) as database:
        size = int(log.header.engine["block_size"] or 0)
        for index in range(len(log)):
            record = log.record(index)
            for entry in record.batch:
                texts[entry.seq_id][entry.start :] = entry.token_ids + texts[entry.seq_id][entry.context_len :]
                for end in range(entry.start // size * size + size, entry.context_len + 1, size):
                    computed.setdefault(tuple(texts[entry.seq_id][:end]), set()).add(index)
            for op in record.ops:
                if isinstance(op, Submit):
                    texts[op.seq_id] = [*op.prompt_token_ids]
                elif isinstance(op, Fork):
                    texts[op.seq_id] = [*texts[op.parent_seq_id]]
                elif isinstance(op, Cache):
                    prefixes[op.block_hash] = (*prefixes[op.parent_hash], *op.token_ids)
        counting = FigureCounter(0)
        for read in read_decisions(log, len(log)):
            counting.read(read)
        contents = database.ask("SELECT block_hash, times FROM contents", 100_000).rows
        again = database.ask(questions()["evicted_again"].sql, 100_000)
        copied = database.ask("SELECT DISTINCT reason FROM events WHERE type = 'cache' AND reason IS NOT NULL").rows
    assert copied == [({"swapping": "swap_in", "outside": "load", "instances": "receive"}[name],)]
    assert dict(contents) == {h.hex(): len(computed.get(prefixes[h], ())) for h in prefixes if h is not None}
    pairs = {(again_in, block_hash) for _, _, again_in, _, _, block_hash in again.rows}
    assert all(again_in in computed[prefixes[bytes.fromhex(block_hash)]] for again_in, block_hash in pairs)
    assert counting.figures().evicted_again == len(pairs)


def test_recomputed_tokens_of_a_prefix_are_summed_over_its_blocks(run_log: Path, database: LogDatabase) -> None:
    """A prefix has the sum of its contents' tokens times recomputations."""
    parents: dict[str, str | None] = {}
    times: dict[str, set[int]] = {}
    with TraceReader(run_log) as log:
        size = int(log.header.engine["block_size"] or 0)
        for index in range(len(log)):
            for op in log.record(index).ops:
                if isinstance(op, Cache):
                    parents[op.block_hash.hex()] = None if op.parent_hash is None else op.parent_hash.hex()
                    times.setdefault(op.block_hash.hex(), set()).add(index)

    def recomputed(name: str | None) -> int:
        return 0 if name is None else (len(times[name]) - 1) * size + recomputed(parents[name])

    ends = {name for name in times if len(times[name]) > 1}
    ends -= {parents[name] for name in ends}
    answer = database.ask(questions()["prefixes_worth_pinning"].sql, 100_000)
    found = {row[-1]: row[0] for row in answer.rows}
    assert found and found == {name: recomputed(name) for name in ends}
    assert [row[0] for row in answer.rows] == sorted(found.values(), reverse=True)


def test_sequences_preempted_twice_are_those_of_the_log(tmp_path: Path) -> None:
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


def test_the_table_of_requests_agrees_with_explain(run_log: Path, database: LogDatabase) -> None:
    with TraceReader(run_log) as log:
        expected = {
            one.request_id: (one.figures.num_cached_tokens, one.figures.ttft, one.tpot)
            for one in overview(log).sequences
        }
    rows = database.ask("SELECT request_id, cached_tokens, ttft, tpot FROM requests").rows
    assert len(rows) == 60 and {row[0]: row[1:] for row in rows} == expected


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("DELETE FROM steps", "read-only"),
        ("INSERT INTO steps (record) VALUES (1)", "read-only"),
        ("CREATE TABLE mine (a)", "read-only"),
        ("ATTACH '/tmp/mine.db' AS mine", "read-only"),
        ("PRAGMA journal_mode = WAL", "read-only"),
        ("VACUUM INTO '/tmp/mine.db'", "read-only"),
        ("SELECT load_extension('/tmp/mine')", "read-only"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("SELECT zeroblob(100000000)", "too big"),
        ("SELECT hex(zeroblob(500000)) FROM steps", "longer than 8 MiB"),
        ("SELECT " + "hex(zeroblob(500000))," * 99 + "1", "too many columns"),
        ("SELECT absent FROM steps", "no such column: absent; SELECT \\* FROM steps LIMIT 1 lists the columns"),
        ("SELECT 1 FROM absent", "no such table: absent; the tables are steps, events, requests and contents"),
        ("", "must begin with SELECT"),
        ("-- nothing", "must begin with SELECT"),
        ("SELECT " + "1," * 20_000 + "1", "at most"),
    ],
)
def test_a_query_only_reads(database: LogDatabase, sql: str, error: str) -> None:
    with pytest.raises(QueryError, match=error):
        database.ask(sql)
    assert database.ask("SELECT count(*) FROM requests").rows == [(60,)]


@pytest.mark.parametrize(
    ("sql", "chinese"),
    [
        ("DELETE FROM steps", "查询只读：请对 steps、events、requests、contents 用 SELECT 或 WITH"),
        ("SELECT 1 FROM absent", "没有表 absent；有的表是 steps、events、requests、contents"),
        ("SELECT absent FROM steps", "没有列 absent；SELECT * FROM steps LIMIT 1 列出一张表的列"),
        ("SELEC 1", '数据库报错：near "SELEC": syntax error'),
        ("", "查询必须以 SELECT 或 WITH 开头"),
        ("SELECT " + "1," * 20_000 + "1", "一条查询最多 20,000 个字符"),
    ],
)
def test_a_query_error_has_a_text_in_each_language(database: LogDatabase, sql: str, chinese: str) -> None:
    with pytest.raises(QueryError) as caught:
        database.ask(sql)
    assert caught.value.translations == {"zh": chinese}


def test_an_endless_query_is_cancelled(database: LogDatabase) -> None:
    with pytest.raises(QueryError, match=r"longer than 0\.2 s"):
        database.ask(ENDLESS, seconds=0.2)
    assert database.ask("SELECT 1").rows == [(1,)]


def test_the_number_of_rows_is_limited(database: LogDatabase) -> None:
    answer = database.ask("SELECT record FROM steps", 3)
    assert len(answer.rows) == 3 and answer.is_cut
    assert not database.ask("SELECT record FROM steps LIMIT 3", 3).is_cut


def test_the_command_answers_a_query(run_log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "query", str(run_log), "--lang", "zh"]) == 0
    assert "被抢占不止一次的请求" in capsys.readouterr().out
    assert main(["trace", "query", str(run_log), "--sql", "SELECT count(*) AS n FROM requests", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"columns": ["n"], "rows": [[60]], "is_cut": False}
    assert main(["trace", "query", str(run_log), "slowest_steps", "--limit", "2"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert main(["trace", "query", str(run_log), "--sql", "DROP TABLE steps"]) == 2
    assert "read-only" in capsys.readouterr().err


def test_a_full_disk_is_reported(
    run_log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """SQLite fails when the file of the tables cannot grow."""
    connect = sqlite3.connect

    def small(*arguments: object, **options: object) -> sqlite3.Connection:
        connection = connect(*arguments, **options)  # type: ignore[call-overload]
        connection.execute("PRAGMA max_page_count = 8")
        return connection  # type: ignore[no-any-return]

    monkeypatch.setattr("engine.trace.query.database.sqlite3.connect", small)
    assert main(["trace", "query", str(run_log), "slowest_steps"]) == 2
    assert "the tables cannot be written: database or disk is full" in capsys.readouterr().err


def test_contents_that_are_removed_and_stored_again_are_counted() -> None:
    """Reports of copies, moves and earlier contents are not counted."""
    observed = ObservedLog(header_of(model="m", source="vLLM", block_size=2, num_blocks=8, events=["tcp://a:1"]))
    first, second = stored([b"a", b"b"], [1, 2, 3, 4], 2), stored([b"b"], [3, 4], 2, b"a")
    moved = stored([b"m"], [], 0, medium="CPU")
    observed.receive(0, Break("attached", 0))
    expected = [
        *((first,), (second,), (removed([b"b"]),)),  # b has another copy
        *((removed([b"b"]), moved), (second, removed([b"a"])), (stored([b"a"], [1, 2], 2),)),
    ]
    for number, events in enumerate(expected):
        observed.receive(0, Message(number, message(*events), False))
    observed.numbers({0: {"vllm:num_preemptions_total": 4.0}})
    with LogDatabase(observed.log) as database:

        def ask(name: str) -> list[dict[str, object]]:
            answer = database.ask(questions()[name].sql)
            return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]

        assert [(one["removed_in"], one["again_in"], one["block_hash"]) for one in ask("stored_again")] in (
            [(4, 5, b"b".hex()), (5, 6, b"a".hex())],
            [(5, 6, b"a".hex()), (4, 5, b"b".hex())],  # the order depends on the clock
        )
        [prefix] = ask("prefixes_stored_again")
        assert (prefix["tokens_stored_again"], prefix["prefix_tokens"], prefix["last_block"]) == (4, 4, b"b".hex())
        assert {one["block_hash"] for one in ask("blocks_stored_again")} == {b"a".hex(), b"b".hex()}
        assert [one["reason"] for one in ask("what_is_missing")] == ["attached"]
        [minute] = ask("minute_by_minute")
        assert (minute["stored"], minute["removed"], minute["preemptions"]) == (5, 2, 0)
        unknown = database.ask("SELECT block_hash FROM contents WHERE prefix_blocks IS NULL").rows
        assert unknown == [(b"m".hex(),)]
        with pytest.raises(QueryError, match="on messages, events, metrics and contents"):
            database.ask("DROP TABLE events")
    observed.log.close()


def test_cached_tables_have_equal_answers_and_are_rebuilt_if_damaged(
    run_log: Path, database: LogDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "x.tables"
    with TraceReader(run_log) as log:
        index = make(log, target)
        assert index.num_records == len(log) and not index.problem
        cached = CachedTables(target, log)
        for question in questions().values():
            if not question.observed:
                assert cached.ask(question.sql) == database.ask(question.sql)
        for sql in ("DELETE FROM steps", "ATTACH '/tmp/mine.db' AS mine", "PRAGMA query_only = 0"):
            with pytest.raises(QueryError, match="read-only"):
                cached.ask(sql)
        with pytest.raises(QueryError, match="longer than"):
            cached.ask(ENDLESS, seconds=0.1)
        assert make(log, target) == index  # reused
        data = target.with_suffix(".sqlite")
        data_bytes = data.read_bytes()
        data.write_bytes(data_bytes[: len(data_bytes) // 2])
        with pytest.raises(DerivedFileError, match="damaged"):
            CachedTables(target, log)
        with pytest.raises(DerivedFileError, match="damaged"):
            cached.ask("SELECT * FROM events ORDER BY fields")
        assert make(log, target).checksum == index.checksum  # rebuilt
        monkeypatch.setattr(module, "MAX_BYTES", 1 << 16)
        with pytest.raises(OSError, match="cannot be written, or exceed"):
            make(log, tmp_path / "y.tables")
        assert not list(tmp_path.glob("*.new")) and not (tmp_path / "y.tables").exists()
    with TraceReader(GOLDEN[0]) as other, pytest.raises(DerivedFileError, match="of another log"):
        CachedTables(target, other)


def test_the_command_caches_the_tables_of_a_long_log(
    run_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr("app.cli.trace_query.MIN_CACHED_BYTES", 0)
    arguments = ["trace", "query", str(run_log), "--sql", "SELECT count(*) AS n FROM requests", "--json"]
    for _ in range(2):
        assert main(arguments) == 0
        assert json.loads(capsys.readouterr().out)["rows"] == [[60]]
        [_] = tmp_path.glob("kvtheater/surveys/*.sqlite")
        monkeypatch.setattr("app.cli.trace_query.make", None)  # fails if called again
    assert main(["trace", "query", str(run_log), "stored_again"]) == 2
    assert "is a query over a monitored server's log, which this log is not" in capsys.readouterr().err
