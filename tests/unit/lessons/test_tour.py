"""The tour as lesson 0: its minutes and its link to the first lesson."""

import json
import re

from app.ground.paths import static_dir
from app.lessons.catalogue import Catalogue
from app.lessons.pace import PRESS, reading

JS = static_dir() / "js"
TOUR = (JS / "control" / "tour.js").read_text(encoding="utf-8")


def constant(name: str) -> str:
    found = re.search(rf"const {name} = \"?([\w-]+)\"?;", TOUR)
    assert found
    return found[1]


def text_of(language: str, stops: list[str]) -> str:
    words = json.loads((JS / "panels" / "tour" / f"words.{language}.json").read_text(encoding="utf-8"))
    keys = [f"tour.{stop}{part}" for stop in stops for part in ("", ".text", ".task", ".done")]
    return "\n".join("".join(words[key]) for key in keys)


def test_the_tours_minutes_are_computed_from_its_contents() -> None:
    stops = list(dict.fromkeys(re.findall(r'\bid: "(\w+)"', TOUR)))
    assert len(stops) == 6
    reading_minutes = max(reading(text_of(language, stops)) for language in ("en", "zh"))
    task_minutes = 2 * PRESS * len(stops)  # the stop's task, and the button to the next stop
    assert abs(int(constant("MINUTES")) - (reading_minutes + task_minutes)) <= 0.5


def test_the_tour_links_to_the_first_lesson() -> None:
    lesson = Catalogue().get(constant("NEXT_LESSON"))
    assert lesson is not None and lesson.kind == "lesson"
    assert lesson.number == min(one.number for one in Catalogue().lessons() if one.kind == "lesson")
