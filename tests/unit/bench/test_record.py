"""Files and reports of benchmark records."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.bench import code
from engine.bench.errors import BenchError
from engine.bench.record import RESULTS, Finding, read_record, read_records, write_record
from engine.bench.report import caveats, details, insert, leading, machines, summary
from engine.bench.scenario import Headline
from engine.bench.text import Text
from tests.unit.bench.small import TEXT, record

ROOT = Path(__file__).resolve().parents[3]

RECORD = record(
    {
        "none": {"seconds": [2.0, 2.2, 1.8], "waste": [0.5, 0.5, 0.5]},
        "paged": {"seconds": [1.0, 1.1, 0.9], "waste": [0.1, 0.1, 0.1]},
    }
)


HEADLINE = Headline(title=Text(**TEXT), metric="seconds", variant="paged", at=1, against="none", at_most=0.6)
FOUND = replace(
    RECORD,
    scenario=replace(RECORD.scenario, headlines=[HEADLINE]),
    findings=[
        Finding(title=HEADLINE.title, value=0.5, low=0.45, high=0.55, unit="×", bar="≤ 0.6", met=True, metric="seconds")
    ],
)


def test_a_record_round_trips(tmp_path) -> None:
    path = tmp_path / "small.json"
    write_record(RECORD, path)
    assert read_record(path) == RECORD
    assert [file.name for file in tmp_path.iterdir()] == ["small.json"]
    assert '"samples": [1.0, 1.1, 0.9]' in path.read_text(encoding="utf-8")
    ratio = json.loads(path.read_text(encoding="utf-8"))["points"][1]["figures"]["seconds"]["ratios"]["none"]
    assert ratio == {"median": 0.5, "low": 0.5, "high": 0.5}


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "is damaged"),
        (b"[1, 2]", "is damaged"),
        (b'{"format": "something"}', "is not a benchmark record"),
        (b'{"format": "kvtheater-bench", "version": 99}', "has version 99; this program reads 1"),
        (b'{"format": "kvtheater-bench", "version": 1}', "is damaged: .*scenario"),
    ],
)
def test_a_damaged_record_is_refused(tmp_path, data: bytes, sentence: str) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(data)
    with pytest.raises(BenchError, match=sentence):
        read_record(path)


def test_a_truncated_or_missing_record_is_refused(tmp_path) -> None:
    path = tmp_path / "small.json"
    write_record(RECORD, path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(BenchError, match=r"small\.json is damaged"):
        read_record(path)
    with pytest.raises(BenchError, match=r"cannot read .*No such file"):
        read_record(tmp_path / "none.json")


def test_other_json_files_in_a_folder_are_ignored(tmp_path) -> None:
    write_record(RECORD, tmp_path / "small.json")
    (tmp_path / "other.json").write_text('{"what": "something else"}', encoding="utf-8")
    assert read_records(tmp_path) == [RECORD]
    (tmp_path / "small.json").unlink()
    with pytest.raises(BenchError, match="there is no benchmark record in"):
        read_records(tmp_path)


def test_the_report_has_the_records_figures() -> None:
    text = details(RECORD)
    assert "1 [0.9, 1.1] (0.50×)" in text and "| none |" not in text and "`kvtheater bench run small`" in text
    assert "文字" in details(RECORD, "zh")


def test_busy_machines_and_stopped_runs_are_reported() -> None:
    busy = replace(RECORD, complete=False, environment=replace(RECORD.environment, busy_cpus=0.39))
    assert caveats([RECORD]) == ""
    text = caveats([RECORD, busy])
    assert "tenth of a CPU while these ran (CPUs): small (0.39)." in text and "Stopped early: small (3 rounds)." in text


def test_a_record_of_other_code_is_marked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The hash covers the engine's code and kernels, and neither the folder's name nor the benchmark package."""
    files = {"engine.py": "x", "cache/a.py": "y", "model/kernels/linear.c": "z", "bench/a.py": "w"}
    codes = []
    for folder, name, text in (
        ("a", "", ""),
        ("b", "", ""),
        ("c", "bench/a.py", "v"),
        ("d", "model/kernels/linear.c", "v"),
    ):
        for file, content in {**files, **({name: text} if name else {})}.items():
            path = tmp_path / folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        monkeypatch.setattr(code, "ENGINE", tmp_path / folder)
        codes.append(code.step_code_hash.__wrapped__())
    assert codes[0] == codes[1] == codes[2] != codes[3]
    for other in (codes[3], None):
        older = replace(RECORD, environment=replace(RECORD.environment, code=other))
        assert "before the code" in details(older) and "before the code" not in details(RECORD)


def test_report_into_replaces_the_marked_table() -> None:
    document = "before\n<!-- all measured -->\nold\n<!-- /all measured -->\nafter\n"
    written = insert(document, [FOUND])
    assert written is not None
    assert written.startswith("before\n<!-- all measured -->\na processor, 2 CPUs, 2 threads")
    assert "old" not in written and written.endswith("|\n<!-- /all measured -->\nafter\n")
    assert "| small | text | ▲ 2.0 times faster | 0.5 [0.45, 0.55] × | ≤ 0.6: met ✓ |\n" in written
    assert "| small | text | ▲ 速度是 2.0 倍 |" in str(insert(document, [FOUND], "zh")).replace("文字", "text")
    assert insert("no marks", [FOUND]) is None


def test_a_finding_without_a_metric_gets_that_of_its_headline(tmp_path) -> None:
    path = tmp_path / "small.json"
    write_record(FOUND, path)
    old = json.loads(path.read_text(encoding="utf-8"))
    assert old["findings"][0].pop("metric") == "seconds"
    path.write_text(json.dumps(old), encoding="utf-8")
    assert read_record(path) == FOUND


@pytest.mark.parametrize("paper", ["docs/benchmarks.md", "engine/bench/results/README.md"])
def test_the_tables_of_the_documentation_equal_the_records(paper: str) -> None:
    """`kvtheater bench report --into` rewrites both."""
    text = (ROOT / paper).read_text(encoding="utf-8")
    assert insert(text, read_records(RESULTS)) == text


def test_the_table_of_leading_headlines_has_six_lines() -> None:
    lines = leading(read_records(RESULTS)).splitlines()[2:]
    assert len(lines) == 6 and "**▲ 5.0 times faster**: 0.198 [" in lines[0]


def test_shipped_records_are_complete_and_have_the_expected_tokens() -> None:
    """A record is named after its scenario and has no unexpected tokens."""
    for path in [p for p in sorted(RESULTS.glob("*.json")) if "_" not in p.stem]:
        found = read_record(path)
        assert found.scenario.id == path.stem and found.rounds
        assert [p for p in found.points if p.tokens_identical is False and p.variant not in found.peers] == []
        assert found.environment.command.startswith("kvtheater bench run ") and found.environment.commit
        assert summary([found])


def test_records_of_two_machines_are_marked() -> None:
    machine = replace(FOUND.environment.machine, processor="another")
    other = replace(FOUND, environment=replace(FOUND.environment, machine=machine))
    assert machines([FOUND]).count("\n") == 0 and machines([FOUND, FOUND]) == machines([FOUND])
    first, second = machines([FOUND, other]).splitlines()
    assert FOUND.environment.machine.processor in first and second.startswith("- another, ")
    assert first.endswith(": small (2026-01-01)") and second.endswith(": small (2026-01-01)")
