"""The benchmark script runs, compares tokens, and writes what it says; its figures are not judged here."""

import json
from pathlib import Path

from engine.bench.first_path import main


def test_it_compares_the_same_tokens_and_writes_a_report(tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    main(["--rounds", "1", "--new-tokens", "4", "--out", str(out)])
    report = json.loads(out.read_text(encoding="utf-8"))
    assert all(report["tokens_identical"].values()) and len(report["tokens_identical"]) == 12
    assert report["max_wasted_slots_per_sequence"] < report["block_size"]
    assert [len(c["variants"]) for c in report["comparisons"]] == [4, 4, 4]
    assert report["machine"]["versions"]["torch"]
