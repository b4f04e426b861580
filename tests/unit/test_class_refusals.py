"""Messages to people in a class exist in each language of the page, with the same figures."""

import re
from string import Formatter

from app.classroom.refusing import refusal, sentence
from app.ground.errors import AppError
from app.page.words import languages
from tests.conftest import ROOT

CODE = "\n".join(
    path.read_text("utf-8") for path in [*ROOT.glob("app/classroom/*.py"), *ROOT.glob("app/server/*events.py")]
)


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def test_each_sentence_is_there_in_each_language_and_is_said() -> None:
    for key, texts in sentence.texts.items():
        assert sorted(texts) == languages()
        assert len({frozenset(fields(text)) for text in texts.values()}) == 1
        assert all(text.strip() and not text.endswith((".", "。")) for text in texts.values())
        assert f'"{key}"' in CODE


def test_absent_metrics_are_not_shown() -> None:
    keys = re.findall(r'refusal\(\s*"\w+",\s*"([\w.]+)"', CODE)
    assert set(keys) == sentence.texts.keys()


def test_refusals_are_sent_in_both_languages() -> None:
    error = refusal("refused", "seat.full", n=1200).as_map()["error"]
    assert error["message"] == "this class is full: it has 1200 seats"
    assert list(error["said"]) == ["zh"] and "1200" in error["said"]["zh"]
    assert "said" not in AppError("refused", "no").as_map()["error"]
