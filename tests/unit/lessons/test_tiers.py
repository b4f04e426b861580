"""Tiers of a lesson: their content after a restart, and refused sizes."""

from pathlib import Path

import pytest

from app.lessons.lesson import LessonError
from app.lessons.parse import parse_lesson, settings_of
from app.lessons.tiers import LessonTiers, TierSizes, tiers_of

BODY = """+++
id = "outside"
minutes = 1
title = {{ en = "Outside" }}
prompts = {{ en = ["Once upon a time"] }}
+++
## start
do: restart {changes}
"""
KEY = b"k" * 16


def test_a_restart_keeps_the_disk_tier_and_clears_the_cpu_tier() -> None:
    lesson, sizes = LessonTiers(), TierSizes(cpu=1 << 20, disk=1 << 20)
    first = lesson.restart(sizes).tiers
    assert first is not None and first.store(KEY, b"x" * 4096) == ["cpu", "disk"]
    second = lesson.restart(sizes).tiers
    assert second is not None and second.lookup([KEY]) == ["disk"], "the restart clears CPU memory"
    assert first.lookup([KEY]) == [], "the restart closes the earlier tiers"
    assert lesson.restart(TierSizes()).tiers is None
    third = lesson.restart(TierSizes(disk=1 << 20)).tiers
    assert third is not None and third.lookup([KEY]) == ["disk"], "the folder is kept while no tier uses it"
    lesson.close()
    fresh = LessonTiers()
    other = fresh.restart(sizes).tiers
    assert other is not None and other.lookup([KEY]) == [], "each lesson session has its own folder"
    fresh.close()


def test_closing_a_lesson_deletes_its_tier_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lesson = LessonTiers()
    lesson.restart(TierSizes(cpu=1 << 20))
    assert list(tmp_path.iterdir()) == []
    lesson.restart(TierSizes(disk=1 << 20))
    assert len(list(tmp_path.iterdir())) == 1
    lesson.close()
    assert list(tmp_path.iterdir()) == []


def test_tier_sizes_are_parsed_like_those_of_the_command_line() -> None:
    assert tiers_of({"kv_offload_cpu": "1 MiB", "num_blocks": 4}) == TierSizes(cpu=1 << 20)
    lesson = parse_lesson(BODY.format(changes='num_blocks=9 kv_offload_disk="2MiB"'), Path("outside.md"))
    assert settings_of(lesson, {"kv_offload_disk": "2MiB", "num_blocks": 9})[0].num_blocks == 9


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ("kv_offload_cpu=much", "“much” is not a size"),
        ('kv_offload_disk="1 GiB"', "kv_offload_disk: a lesson's tier has at most 16 MiB"),
        ("kv_offload_tape=1MiB", "there is no setting 'kv_offload_tape'"),
    ],
)
def test_invalid_tier_settings_are_reported_by_line(changes: str, why: str) -> None:
    with pytest.raises(LessonError) as caught:
        parse_lesson(BODY.format(changes=changes), Path("outside.md"))
    assert caught.value.line == 8 and why in caught.value.sentence
