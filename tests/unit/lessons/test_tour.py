"""The tour as lesson 0: its minutes are computed like those of the others, and it links to the first of them."""

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


def spoken(language: str, stops: list[str]) -> str:
    words = json.loads((JS / "panels" / "tour" / f"words.{language}.json").read_text(encoding="utf-8"))
    keys = [f"tour.{stop}{part}" for stop in stops for part in ("", ".text", ".task", ".done")]
    return "\n".join("".join(words[key]) for key in keys)


def test_the_tours_minutes_follow_from_its_contents() -> None:
    stops = list(dict.fromkeys(re.findall(r'\bid: "(\w+)"', TOUR)))
    assert len(stops) == 6
    longest = max(reading(spoken(language, stops)) for language in ("en", "zh"))
    doing = 2 * PRESS * len(stops)  # what the stop asks for, and on to the next
    assert abs(int(constant("MINUTES")) - (longest + doing)) <= 0.5


def test_the_tour_links_to_the_first_lesson() -> None:
    lesson = Catalogue().get(constant("NEXT_LESSON"))
    assert lesson is not None and lesson.kind == "lesson"
    assert lesson.number == min(one.number for one in Catalogue().lessons() if one.kind == "lesson")
