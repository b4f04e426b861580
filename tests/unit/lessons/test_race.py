"""Races of lessons, with the page's lanes and the lesson's settings."""

import re
from pathlib import Path

from app.ground.paths import static_dir
from app.lessons.catalogue import shipped_folder
from app.lessons.lesson import Do
from app.lessons.parse import LANES, read_lesson
from app.lessons.race import STRATEGIES, race_setup


def race_actions(path: Path) -> list[Do]:
    return [item for item in read_lesson(path).items if isinstance(item, Do) and item.action.verb == "race"]


def test_the_lanes_equal_those_of_the_page() -> None:
    source = (static_dir() / "js" / "panels" / "race" / "model.js").read_text(encoding="utf-8")
    of_page = {
        name: tuple(re.findall(r'"(\w+)"', lanes)) for name, lanes in re.findall(r"(\w+): strategies\((.*)\)", source)
    }
    assert of_page == {name: lanes for name, lanes in STRATEGIES.items() if name != "models"}
    assert set(STRATEGIES) == set(LANES)


def test_lesson_1_races_strategies_and_lesson_7_caches() -> None:
    found = {
        path.name: [do.action.lanes for do in race_actions(path)] for path in sorted(shipped_folder().glob("*.md"))
    }
    assert {name: lanes for name, lanes in found.items() if lanes} == {
        "01-computed-twice.md": ["strategies"],
        "07-pages.md": ["caches"],
    }


def test_the_race_uses_the_lessons_settings() -> None:
    path = next(shipped_folder().glob("07-*.md"))
    lesson = read_lesson(path)
    race = race_setup(lesson, "zh", race_actions(path)[0].action)
    assert race.prompt == lesson.prompts["zh"][0] and race.model == "bundled"
    assert race.config == {"block_size": 4, "num_blocks": 48, "max_model_len": 96, "enforce_eager": True}
    assert race.sampling == lesson.sampling
