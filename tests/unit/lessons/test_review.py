"""Reviews repeat questions on the run of their lesson, whose earlier actions are replayed."""

from pathlib import Path

import pytest

from app.ground.settings import ServerSettings
from app.lessons.answers import AskItem
from app.lessons.course import Course
from app.lessons.item_messages import page_items
from app.lessons.lesson import REVIEW, Ask, Do, Sandbox, Show
from app.lessons.lesson_engine import BareLessonEngine
from app.lessons.lesson_sessions import replay
from app.lessons.parse import parse_lesson, settings_of
from app.lessons.review import review
from app.lessons.words import worded
from app.models.live_engine import engine_builder
from engine.model.loader import load_model

LESSON = """+++
id = "one"
minutes = 3
title = { en = "One" }
prompts = { en = ["Once upon a time"] }
config = { block_size = 4, num_blocks = 8, enforce_eager = true }
sampling = { max_tokens = 6, ignore_eos = true }
+++
## start

::: en
A text.
:::
show: stage
ask: tokens_computed
do: prefill
ask: keys_read
do: step 1

## more

ask: next_block
ask: slot position=6
do: step 1
do: step 1
sandbox:
"""


def test_a_review_keeps_the_actions_and_the_chosen_question() -> None:
    lesson = parse_lesson(LESSON, Path("one.md"))
    repeated = review(lesson, [4, 8, 1, 99])
    questions = [item for item in repeated.items if isinstance(item, Ask)]
    assert [(item.rule, item.again) for item in questions] == [("keys_read", "one/4")]
    assert (
        repeated.id == REVIEW
        and repeated.minutes == 1
        and not any(isinstance(item, Sandbox) for item in repeated.items)
    )
    verbs = [item.action.verb if isinstance(item, Do) else type(item) for item in repeated.items]
    assert verbs == [Show, "prefill", Ask, "step"]


def test_a_review_starts_at_its_question() -> None:
    lesson = review(parse_lesson(LESSON, Path("one.md")), [7])
    builder = engine_builder(load_model("bundled"), ServerSettings().max_pool_bytes)
    engine = BareLessonEngine(lambda name: builder, settings_of(lesson, {})[0], lesson.model)
    course = Course(lesson, "en", engine)
    replay(course, 10_000, {})
    (question,) = [item for item in page_items(course) if isinstance(item, AskItem)]
    assert (question.rule, question.again, question.right) == ("slot", "one/7", None)
    assert course.moment.records == 3 < len(course.log), "records after the question are not shown"
    course.answer_right()
    course.advance()
    course.advance()
    assert course.checkpoint is None
    engine.close()


def test_removed_questions_are_not_reviewed() -> None:
    assert review(parse_lesson(LESSON, Path("one.md")), [0, 40]).items == []


@pytest.mark.parametrize(
    ("prompts", "ask", "of"), [(1, "slot", None), (2, "slot", 0), (2, "ref_count logical=0", None)]
)
def test_a_question_about_one_of_several_sequences_names_it(prompts: int, ask: str, of: int | None) -> None:
    """The sequence is named on the page and in a class's results, unless the question's text names it."""
    text = LESSON.replace('["Once upon a time"]', str(["Once upon a time", "Who has seen the wind?"][:prompts]))
    asked_of = f"{ask} position=6" if ask == "slot" else ask
    lesson = review(parse_lesson(text.replace("ask: slot position=6", f"ask: {asked_of}"), Path("one.md")), [7])
    builder = engine_builder(load_model("bundled"), ServerSettings().max_pool_bytes)
    engine = BareLessonEngine(lambda name: builder, settings_of(lesson, {})[0], lesson.model)
    course = Course(lesson, "en", engine)
    replay(course, 10_000, {})
    (question,) = [item for item in page_items(course) if isinstance(item, AskItem)]
    assert question.of == of and course.question is not None
    for language, named in (("en", "Sequence 0: In which slot"), ("zh", "序列 0：位置")):
        assert worded(course.question, language)[0].startswith(named) == (of == 0)
    engine.close()
