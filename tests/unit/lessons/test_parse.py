"""Parsing of lesson files, and errors with their line."""

from pathlib import Path

import pytest

from app.lessons.lesson import Ask, Do, LessonError, Show, Text
from app.lessons.markup import claims, tree
from app.lessons.numbers import agrees, number_in
from app.lessons.pace import PRESS, QUESTION, minutes, minutes_more
from app.lessons.parse import parse_lesson, settings_of

HEAD = """+++
id = "one"
minutes = 3
title = { en = "One", zh = "一" }
prompts = { en = ["a"], zh = ["春"] }
config = { block_size = 4 }
+++
"""
BODY = """
## start

::: en
All [five](=prompt_tokens) have a [key](k).
:::
::: zh
都有[键](k)。
:::
do: prefill
show: stage layer=2
ask: slot position=3
"""


def test_the_items_of_a_lesson_are_parsed_in_order() -> None:
    lesson = parse_lesson(HEAD + BODY, Path("one.md"))
    text, do, show, ask = lesson.items
    assert isinstance(text, Text) and text.line == 11 and set(text.texts) == {"en", "zh"}
    assert isinstance(do, Do) and do.action.verb == "prefill"
    assert isinstance(show, Show) and (show.part, show.view) == ("stage", {"layer": "2"})
    assert isinstance(ask, Ask) and (ask.rule, ask.arguments) == ("slot", {"position": "3"})
    assert [section.name for section in lesson.sections] == ["start"]
    assert settings_of(lesson, {"max_tokens": 3})[1].max_tokens == 3


def test_optional_sections_are_counted_separately() -> None:
    text = HEAD + "## a\nask: slot position=3\ndo: step\nsandbox:\n## b optional\ndo: restart\ndo: step\ndo: step\n"
    lesson = parse_lesson(text, Path("one.md"))
    assert [section.optional for section in lesson.sections] == [False, True]
    assert lesson.num_optional == 1
    assert minutes(lesson) == pytest.approx(QUESTION + PRESS)
    assert minutes_more(lesson) == pytest.approx(2 * PRESS)  # a restart includes the following step


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ("hello", 1, "must begin with a TOML header"),
        (HEAD.replace('"one"', '"again"') + BODY, 1, "reserved by the page"),
        (HEAD.replace('"one"', '"tour"') + BODY, 1, "reserved by the page"),
        ("+++\nid = 1\n", 1, "no end"),
        ("+++\nid = \n+++\n", 2, "not valid TOML"),
        ("+++\nid = 1\n+++\n", 1, "the header"),
        (HEAD.replace('zh = "一"', 'xx = "一"') + BODY, 1, "no language 'xx'"),
        (HEAD.replace('zh = ["春"]', "zh = []") + BODY, 1, "the same number"),
        (HEAD.replace("block_size", "block_sise") + BODY, 1, "block_sise"),
        (HEAD, 0, "has no section"),
        (HEAD + "do: prefill", 8, "a section must begin"),
        (HEAD + "## a\nhello", 9, "neither a text between"),
        (HEAD + "## a\n::: en\nhello\n:::\ndo: prefill", 9, "missing in language 'zh'"),
        (HEAD + "## a\n::: fr\nbonjour\n:::", 9, "not in this language"),
        (HEAD + "## a\n::: en\nhello", 9, "no end"),
        (HEAD + "## a\ndo: dance", 9, "there is no action 'dance'"),
        (HEAD + "## a\ndo: step many", 9, "'many' is not a number"),
        (HEAD + "## a\ndo: run until=doomsday", 9, "'doomsday'"),
        (HEAD + "## a\ndo: submit 3", 9, "no prompt 3"),
        (HEAD + "## a\ndo: restart block_sise=3", 9, "block_sise"),
        (HEAD + "## a\ndo: fork keep.en=3", 9, "fork: each language is needed: keep.en=… keep.zh=…"),
        (HEAD + "## a\nshow: moon", 9, "no 'moon'"),
        (HEAD + "## a\nshow: stage tint=3", 9, "'tint'"),
        (HEAD + "## a\nask: meaning", 9, "no rule 'meaning'"),
        (HEAD + "## a\nask: slot", 9, "needs position="),
        (HEAD + "## a\nask: slot position=here", 9, "a whole number"),
        (HEAD + "## a\nask: slot position=1 colour=red", 9, "no argument 'colour'"),
        (HEAD + "## a\nshow: race", 9, "a race is shown by do: race"),
        (HEAD + "## a\ndo: race horses", 9, "no set of lanes 'horses'"),
        (HEAD + "## a\ndo: race caches prompt=1", 9, "race: there is no prompt 1"),
        (HEAD + "## a\ndo: race caches\ndo: prefill\nask: next_block\ndo: step", 11, "could reveal the answer"),
        (HEAD + "## a\ndo: race caches\nwork:\ndo: step", 10, "could reveal the answer"),
        (HEAD + BODY + "## start\ndo: step", 0, "two sections"),
        (HEAD + "## a\nsandbox:\ndo: step", 9, "only optional sections may follow it"),
        (HEAD + "## a\nsandbox:\n## b optional\ndo: step", 9, "begin with do: restart"),
        (HEAD + "## a\ndo: step\n## b optional\nsandbox:\n## c optional\ndo: restart", 11, "sections may follow it"),
        (HEAD + "## a optional\ndo: step\n## b\ndo: step", 10, "only optional sections may follow"),
        (HEAD + "## a soon\ndo: step", 8, "or name optional"),
        (HEAD + BODY.replace("](k)", "](~block_size)"), 12, "needs digits"),
        (HEAD + BODY.replace("[key](k)", "[4](~block_sise)"), 12, "no setting 'block_sise'"),
        (HEAD + BODY.replace("=prompt_tokens", "=prompt_size"), 12, "no figure 'prompt_size'"),
        (HEAD + BODY.replace("[five]", "[many]"), 12, "no number in 'many'"),
        (HEAD + BODY.replace("](k)", "](javascript:alert(1))"), 12, "a link cannot lead to"),
        (HEAD + BODY.replace("All", "<b>All</b> ![x](y)"), 12, "a link cannot lead to 'y'"),
    ],
)
def test_invalid_lessons_are_reported_by_line(text: str, line: int, sentence: str) -> None:
    with pytest.raises(LessonError) as caught:
        parse_lesson(text, Path("bad.md"))
    assert caught.value.line == line
    assert sentence in caught.value.sentence and "\n" not in caught.value.sentence


def test_html_in_a_text_is_not_parsed() -> None:
    (paragraph,) = tree("<script>alert(1)</script> *and* `<b>`")
    assert isinstance(paragraph, dict) and paragraph["tag"] == "p"
    assert "script" not in {node["tag"] for node in _all(paragraph)}


def _all(node: object) -> list[dict[str, str]]:
    if not isinstance(node, dict):
        return []
    return [node, *(found for child in node["children"] for found in _all(child))]


def test_a_claim_has_a_figure_arguments_and_a_number() -> None:
    (claim,) = claims("There are [16](=slot_of:3:0) here and [4](~block_size).")
    assert (claim.figure, claim.arguments, claim.text) == ("slot_of", ["3", "0"], "16")


@pytest.mark.parametrize(
    ("text", "found", "right"),
    [
        ("16", 16, True),
        ("sixteen tokens", 16, True),
        ("十六", 16, True),
        ("一百零八", 108, True),
        ("两", 2, True),
        ("4,096 B", 4096, True),
        ("2 KiB", 2048, True),
        ("1.1 KiB", 1152, True),
        ("1.1 KiB", 1280, False),
        ("22 %", 0.2212, True),
        ("22 %", 0.2312, False),
        ("0.31", 0.3125, True),
        ("17", 16, False),
    ],
)
def test_a_number_agrees_up_to_its_last_digit(text: str, found: float, right: bool) -> None:
    number = number_in(text)
    assert number is not None and agrees(number, found) is right
