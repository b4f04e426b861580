"""Regression guard: ratios and counts beyond a threshold give a nonzero exit status."""

from pathlib import Path

import pytest

from app.cli import main
from engine.bench.compare import compare, lost_points, worsening
from engine.bench.record import Record, write_record
from tests.unit.bench.small import record

ROUNDS = [1.0, 1.01, 0.99, 1.0, 1.02]


def measured(seconds: float, tokens: float = 100.0, rounds: list[float] = ROUNDS) -> Record:
    """Return a record in which the baseline takes 4 s and the variant `seconds`, with the rounds' spread."""
    return record(
        {
            "none": {"seconds": [4.0] * 5, "computed_tokens": [500.0] * 5},
            "paged": {"seconds": [seconds * r for r in rounds], "computed_tokens": [tokens] * 5},
        }
    )


def test_a_regression_depends_on_the_direction_of_the_metric() -> None:
    assert worsening(2.0, 2.2, higher_is_better=False) == pytest.approx(0.1)
    assert worsening(2.2, 2.0, higher_is_better=True) == pytest.approx(0.1)
    assert worsening(2.0, 1.0, higher_is_better=False) == pytest.approx(-0.5)
    assert worsening(0.0, 1.0, higher_is_better=False) == float("inf")


def test_a_slower_machine_is_no_regression() -> None:
    """All seconds are doubled, so the ratios are the same."""
    slower = record(
        {
            "none": {"seconds": [8.0] * 5, "computed_tokens": [500.0] * 5},
            "paged": {"seconds": [2.0 * r for r in ROUNDS], "computed_tokens": [100.0] * 5},
        }
    )
    assert not any(difference.worse for difference in compare(measured(1.0), slower))


def test_a_ratio_past_the_threshold_is_a_regression() -> None:
    """A change from 0.25 to 0.3 is 20 % worse. A change from 0.25 to 0.26 is within 10 %."""
    (worse,) = [d for d in compare(measured(1.0), measured(1.2)) if d.worse]
    assert (worse.metric, worse.variant, worse.against) == ("seconds", "paged", "none")
    assert worse.change == pytest.approx(0.2)
    assert not any(d.worse for d in compare(measured(1.0), measured(1.04)))
    assert not any(d.worse for d in compare(measured(1.0), measured(1.2), threshold=0.25))


def test_intervals_that_touch_are_noise() -> None:
    noisy = measured(1.2, rounds=[0.7, 1.0, 1.3, 0.9, 1.1])
    assert not any(d.worse for d in compare(measured(1.0), noisy))


def test_a_count_needs_no_baseline() -> None:
    found = compare(measured(1.0), measured(1.0, tokens=120.0), counts_only=True)
    assert [(d.metric, d.variant, d.worse) for d in found] == [
        ("computed_tokens", "none", False),
        ("computed_tokens", "paged", True),
    ]


def test_lost_points_are_reported() -> None:
    lost = measured(1.0)
    lost = record({"none": {"seconds": [4.0] * 5}}, points=lost.points[:1])
    assert lost_points(measured(1.0), lost) == ["small, 1, paged: no figures any more"]


def bench_compare(tmp_path: Path, before: Record, after: Record, *options: str) -> int:
    write_record(before, tmp_path / "a" / "small.json")
    write_record(after, tmp_path / "b" / "small.json")
    return main(["bench", "compare", str(tmp_path / "a"), str(tmp_path / "b"), *options])


def test_the_command_exits_with_one_past_the_threshold(tmp_path, capsys) -> None:
    assert bench_compare(tmp_path, measured(1.0), measured(1.2)) == 1
    assert "small, 1, paged: seconds against none 0.25 " in capsys.readouterr().out
    assert bench_compare(tmp_path, measured(1.0), measured(1.2), "--threshold", "0.3") == 0
    assert bench_compare(tmp_path, measured(1.0), measured(1.2), "--counts") == 0
    assert bench_compare(tmp_path, measured(1.0), measured(0.5)) == 0


def test_the_command_refuses_a_damaged_record(tmp_path, capsys) -> None:
    write_record(measured(1.0), tmp_path / "a.json")
    (tmp_path / "b.json").write_text("{", encoding="utf-8")
    assert main(["bench", "compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 2
    assert "b.json is damaged" in capsys.readouterr().err
