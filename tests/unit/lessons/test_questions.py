"""Stems and answers of questions, and tokens that differ from those of the full cache."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.lessons.catalogue import shipped_folder
from app.lessons.course import Course
from app.lessons.lesson import Ask
from app.lessons.lesson_engine import BareLessonEngine, LessonPrompt
from app.lessons.parse import read_lesson, settings_of
from app.lessons.questions.forgetting import changes
from app.lessons.questions.rules import MAX_OPTIONS, Evidence, Option, Question, select_options
from app.lessons.words import worded
from engine.config import EngineConfig, SamplingParams
from tests.unit.lessons.models import builder


@given(keys=st.lists(st.integers(0, 9), min_size=1, max_size=12), data=st.data())
def test_a_short_list_has_the_right_answer_and_the_first_others(keys: list[int], data: st.DataObject) -> None:
    right = data.draw(st.sampled_from(keys))
    found = select_options(keys, right)
    assert right in found and len(found) == min(len(set(keys)), MAX_OPTIONS)
    order = list(dict.fromkeys(keys))
    assert found == sorted(found, key=order.index)
    left_out = [key for key in order if key not in found]
    assert all(order.index(key) > order.index(one) for key in left_out for one in found if one != right)


def test_a_question_with_too_many_answers_is_an_error() -> None:
    options = [Option(text=f"answer.{i}") for i in range(MAX_OPTIONS + 1)]
    with pytest.raises(ValueError, match=f"x has {MAX_OPTIONS + 1} answers; a question has at most {MAX_OPTIONS}"):
        Question(rule="x", values={}, options=options, right=0, evidence=Evidence(record=0))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_question_about_retained_keys_does_not_reveal_the_answer(language: str) -> None:
    lesson = read_lesson(shipped_folder() / "14-may-be-forgotten.md")
    engine = BareLessonEngine(builder, settings_of(lesson, {})[0], lesson.model)
    course = Course(lesson, language, engine)
    course.advance()
    while not (isinstance(course.checkpoint, Ask) and course.checkpoint.rule == "keys_kept"):
        course.answer_right()
        course.advance()
    assert course.question
    stem, answers = worded(course.question, language)
    assert answers[course.question.right] == "16" and "16" not in stem
    engine.close()


def test_sampling_differences_do_not_count_as_changes_by_forgetting() -> None:
    config = EngineConfig(
        block_size=4, num_blocks=64, enforce_eager=True, forget_policy="window", forget_budget=60, forget_compare=True
    )
    engine = BareLessonEngine(builder, config, "bundled")
    engine.submit([LessonPrompt(text="Who has seen the wind?")], SamplingParams(max_tokens=16, temperature=2.0, seed=1))
    while engine.step():
        pass
    outputs = [output for index in range(len(engine.log)) for output in engine.log.record(index).outputs]
    assert any(one.full and one.token_id != one.full.token_id for one in outputs), "less probable tokens are drawn"
    assert changes(engine.log, 0) == []
    engine.close()
