"""Shipped lessons: every step, number and question, in every language."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from app.cli import main
from app.lessons.answers import AskItem, MendItem, WorkItem
from app.lessons.catalogue import lesson_files, shipped_folder
from app.lessons.check import check
from app.lessons.course import Course
from app.lessons.item_messages import page_items
from app.lessons.lesson import Ask, Lesson, LessonError, Sandbox, Work
from app.lessons.lesson_engine import BareLessonEngine
from app.lessons.pace import minutes
from app.lessons.parse import parse_lesson, read_lesson, settings_of
from app.lessons.prompt_order import Mending
from app.lessons.questions import RULES
from app.lessons.race import STRATEGIES
from app.lessons.words import question_texts, worded
from app.page.words import languages
from engine.trace.operations import Lookup
from tests.unit.lessons.models import builder


def lesson_engine_of(lesson: Lesson) -> BareLessonEngine:
    return BareLessonEngine(builder, settings_of(lesson, {})[0], lesson.model)


@pytest.mark.parametrize("path", lesson_files(shipped_folder()), ids=lambda path: path.stem)
def test_every_shipped_lesson_passes_the_check(path: Path) -> None:
    lesson = read_lesson(path)
    assert lesson.languages == languages()
    assert abs(lesson.minutes - minutes(lesson)) <= 1
    assert check(lesson, builder) == []


HALF_PLACED = {"where_now", "copied"}  # "nowhere" and "no" are no places


@pytest.mark.parametrize("path", lesson_files(shipped_folder()), ids=lambda path: path.stem)
def test_every_answer_has_a_text_and_ends_its_question(path: Path) -> None:
    """Answers are in turn right, wrong and then right, and unsure."""
    lesson = read_lesson(path)
    for language in lesson.languages:
        texts = question_texts(language)
        engine = lesson_engine_of(lesson)
        course = Course(lesson, language, engine)
        course.advance()
        while course.checkpoint is not None:
            question = course.question
            if isinstance(course.checkpoint, Ask) and question:
                at = course.at
                assert f"question.{question.rule}.stem" in texts and f"question.{question.rule}.right" in texts
                check_text(texts[f"question.{question.rule}.stem"], question.values)
                check_text(texts[f"question.{question.rule}.right"], question.values)
                for option in question.options:
                    check_text(texts[option.text], option.values)
                    if option.why and option.why != "near":
                        keys = {f"question.{question.rule}.{option.why}", f"question.{question.rule}.why.{option.why}"}
                        assert keys & texts.keys(), (question.rule, option.why)
                        check_text(texts[min(keys & texts.keys())], question.values)
                stem, answers = worded(question, language)
                assert "{" not in stem + "".join(answers) and len(answers) == len(set(answers))
                assert question.options[question.right].why is None
                shown = page_items(course, at)[-1]
                assert isinstance(shown, AskItem) and shown.right is None, "the answer is revealed before it is given"
                placed = [option.place is not None for option in shown.options]
                assert all(placed) == any(placed) or question.rule in HALF_PLACED, (question.rule, placed)
                variant = at % 3
                if variant == 1:
                    assert not course.answer((question.right + 1) % len(question.options))
                    assert course.answers[at].over == (lesson.kind != "lesson"), "only lessons allow a second try"
                if not (course.answers.get(at) and course.answers[at].over):
                    course.answer(None if variant == 2 else question.right)
                assert course.answers[at].over
            elif isinstance(course.checkpoint, Work):
                do_the_work(course)
            course.advance()
        assert isinstance(lesson.items[-1], Sandbox) or course.at == len(lesson.items)
        engine.close()


def check_text(text: str, values: Mapping[str, object]) -> None:
    """Check that every placeholder has its value."""
    assert set(re.findall(r"\{(\w+)", text)) <= values.keys(), (text, values)


def do_the_work(course: Course) -> None:
    """Answer without the last operation and then completely, and check that the engine's list is sent at the end."""
    at = course.at
    if at in course.sessions:
        return mend(course)
    moves = course.engine_moves()
    assert not course.answer(moves[:-1])
    shown = page_items(course, at)[-1]
    assert isinstance(shown, WorkItem) and shown.engine is None and not shown.over
    assert shown.given[0] is not None and shown.given[0].missing == 1
    assert course.answer(moves)
    shown = page_items(course, at)[-1]
    assert isinstance(shown, WorkItem) and shown.over and shown.engine is not None
    assert [done.move for done in shown.engine] == moves


def mend(course: Course) -> None:
    """Answer without the last move and then completely, and check that the right run is sent at the end."""
    at, moves = course.at, course.right_moves()
    before = course.sessions[at]
    assert not course.answer(Mending(moves=moves[:-1]))
    shown = page_items(course, at)[-1]
    assert isinstance(shown, MendItem) and shown.right is None and not shown.over
    first = shown.given[0]
    assert first is not None and any(turn.again for turn in first.turns)
    assert course.answer(Mending(moves=moves))
    shown = page_items(course, at)[-1]
    assert isinstance(shown, MendItem) and shown.right is not None and shown.moment is not None
    assert [sorted(turn.lines) for turn in shown.right.turns] == [sorted(turn.lines) for turn in before]
    hits = [sum(turn.num_hit for turn in turns) for turns in (before, first.turns, shown.right.turns)]
    assert hits == sorted(set(hits)), "each order has more hits"
    log = course.logs[shown.moment.run]
    lookups = [op for i in range(len(log)) for op in log.record(i).ops if isinstance(op, Lookup)]
    assert [op.num_hit_tokens for op in lookups] == [turn.num_hit for turn in shown.right.turns]


def test_every_rule_is_used_and_lessons_begin_with_a_repeated_question() -> None:
    used_rules: set[str] = set()
    lessons = [read_lesson(path) for path in lesson_files(shipped_folder())]
    for lesson in sorted((one for one in lessons if one.kind == "lesson"), key=lambda one: one.number):
        rules = [item.rule for item in lesson.items if isinstance(item, Ask)]
        assert not used_rules or rules[0] in used_rules, lesson.id
        used_rules |= set(rules)
    assert used_rules == set(RULES)


def test_the_seven_lessons_of_a_class_take_at_most_45_minutes() -> None:
    """Lessons 1, 2, 3, 5, 7, 8 and 9, without the optional sections."""
    lessons = {lesson.number: lesson for lesson in map(read_lesson, lesson_files(shipped_folder()))}
    assert sum(minutes(lessons[number]) for number in (1, 2, 3, 5, 7, 8, 9)) <= 45


def test_the_learner_does_every_kind_of_operation() -> None:
    kinds: set[str] = set()
    for lesson in map(read_lesson, lesson_files(shipped_folder())):
        if not any(isinstance(item, Work) for item in lesson.items):
            continue
        engine = lesson_engine_of(lesson)
        course = Course(lesson, "en", engine)
        course.advance()
        while course.checkpoint is not None:
            if isinstance(course.checkpoint, Work) and not course.checkpoint.mends:
                kinds |= {move.kind for move in course.engine_moves()}
            if isinstance(course.checkpoint, Ask | Work):
                course.answer(None)
            course.advance()
        engine.close()
    assert kinds == {"allocate", "share", "copy", "free", "evict"}


def test_every_rule_has_texts_in_every_language() -> None:
    for language in languages():
        texts = question_texts(language)
        assert not [name for name in RULES if f"question.{name}.stem" not in texts]
    named = {key.split(".")[1] for key in question_texts("en") if key.startswith("question.")}
    assert named - {"near", "of_sequence"} == set(RULES)
    assert question_texts("en").keys() == question_texts("zh").keys()


BAD = """+++
id = "bad"
minutes = 1
title = { en = "Bad" }
prompts = { en = ["Once upon a time"] }
config = { block_size = 4, num_blocks = 8, enforce_eager = true }
sampling = { max_tokens = 4, ignore_eos = true }
+++
## start
"""


@pytest.mark.parametrize(
    ("body", "line", "sentence"),
    [
        ("do: prefill\n::: en\n[Nine](=prompt_tokens) tokens.\n:::", 11, "is stated, but prompt_tokens is 5"),
        ("::: en\n[Five](=prompt_tokens) tokens.\n:::", 10, "before any prompt is submitted"),
        ("do: prefill\n::: en\nIt is in block [0](=block_of:90).\n:::", 11, "has no block"),
        ("do: prefill\nask: released\ndo: step", 11, "nothing of sequence 0 is released"),
        ("do: prefill\nask: keys_read", 11, "the following action runs no step"),
        ("do: prefill\ndo: step 9", 11, "nothing is left to compute"),
        ("do: prefill\ndo: run until=preempt", 11, "before preempt occurred"),
        ("do: restart num_blocks=1\ndo: prefill", 11, "prefill"),
        ("ask: same_text\ndo: prefill", 10, "there is no previous run"),
        ("work:\ndo: prefill", 10, "sequences must be submitted and forked by an earlier"),
        ("ask: keys_read\ndo: race caches\ndo: prefill", 10, "the following action runs no step"),
        ("do: prefill\nwork:\ndo: step 2", 11, "no block is allocated, shared, copied or freed"),
    ],
)
def test_false_claims_are_reported_by_line(body: str, line: int, sentence: str) -> None:
    found = check(parse_lesson(BAD + body, Path("bad.md")), builder)
    assert [error.line for error in found] == [line]
    assert sentence in found[0].sentence


def test_impossible_races_are_reported_by_line() -> None:
    small = BAD.replace("num_blocks = 8", "num_blocks = 1")
    found = check(parse_lesson(small + "do: race caches", Path("bad.md")), builder)
    assert [error.line for error in found] == [10] * len(STRATEGIES["caches"])
    assert all(error.sentence.startswith("[en] do: race: ") for error in found)


def test_prompts_of_a_lesson_are_normalized_like_submitted_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The shipped models are not trained on Chinese with ASCII punctuation."""
    text = BAD.replace("en = ", "zh = ").replace("Once upon a time", "春江潮水连海平,海上明月共潮生!")
    path = tmp_path / "seen.md"
    path.write_text(text + "do: prefill", encoding="utf-8")
    lesson = read_lesson(path)
    engine = lesson_engine_of(lesson)
    course = Course(lesson, "zh", engine)
    while course.checkpoint is not None or course.at < 0:
        course.advance()
    (sequence,) = engine.log.state_at(0).sequences.values()
    assert b"".join(sequence.token_bytes).decode() == "春江潮水连海平，海上明月共潮生！"
    engine.close()
    assert main(["lesson", "check", str(path)]) == 0
    output = capsys.readouterr().out
    assert (
        "seen.md:1: [zh] prompts: '春江潮水连海平,海上明月共潮生!' is seen as '春江潮水连海平，海上明月共潮生！'"
        in output
    )
    assert "valid in zh" in output


def test_a_restart_may_change_the_model() -> None:
    """The sibling models have 8, 2 and 1 KV heads of 16 numbers, for K and V of 3 layers, with 4 bytes each."""
    body = """do: prefill
::: en
[3,072](=token_bytes), of [8](=kv_heads).
:::
do: restart model=bundled-gqa
do: prefill
::: en
[768](=token_bytes), of [2](=kv_heads).
:::
do: restart model=bundled-mqa block_size=2
do: prefill
::: en
[384](=token_bytes), of [1](=kv_heads).
:::
do: restart
do: prefill
::: en
Back to [3072](=token_bytes).
:::"""
    text = BAD.replace("minutes = 1", 'minutes = 1\nmodel = "bundled-mha"') + body
    lesson = parse_lesson(text, Path("siblings.md"))
    assert lesson.models == ["bundled-mha", "bundled-gqa", "bundled-mqa"]
    assert check(lesson, builder) == []
    wrong = check(parse_lesson(text.replace("[768]", "[3072]"), Path("siblings.md")), builder)
    assert [(error.line, error.sentence) for error in wrong] == [(17, "[en] “3072” is stated, but token_bytes is 768")]


def test_a_new_lesson_passes_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "my" / "first.md"
    assert main(["lesson", "new", str(path)]) == 0
    assert main(["lesson", "new", str(path)]) == 2, "not overwritten"
    assert main(["lesson", "check", str(path)]) == 0
    assert main(["lesson", "list", "--lessons", str(path.parent)]) == 0
    assert "first" in capsys.readouterr().out
    path.write_text(path.read_text(encoding="utf-8").replace("[five]", "[six]"), encoding="utf-8")
    assert main(["lesson", "check", str(path)]) == 1
    assert ":25: [en] “six” is stated, but prompt_tokens is 5" in capsys.readouterr().out


def test_a_question_is_answered_once() -> None:
    lesson = parse_lesson(BAD + "do: prefill\nask: keys_read\ndo: step", Path("x.md"))
    engine = lesson_engine_of(lesson)
    course = Course(lesson, "en", engine)
    course.advance()
    with pytest.raises(LessonError, match="is no question"):
        course.answer(0)
    course.advance()
    assert len(course.log) == 3 and course.moment.records == 2, "the deciding record is computed and not shown"
    with pytest.raises(LessonError, match="not answered yet"):
        course.advance()
    with pytest.raises(LessonError, match="no answer 99"):
        course.answer(99)
    course.answer(None)
    with pytest.raises(LessonError, match="already answered"):
        course.answer(0)
    course.advance()
    assert course.moment.records == 2
    course.advance()
    assert course.moment.records == 3 and course.progress.over
    engine.close()


def test_a_lesson_with_an_impossible_question_stays_at_its_checkpoint() -> None:
    """No sequence is preempted, so the question fails with the same error each time."""
    lesson = parse_lesson(BAD + "do: prefill\nask: victim\ndo: step", Path("x.md"))
    engine = lesson_engine_of(lesson)
    course = Course(lesson, "en", engine)
    course.advance()
    for _ in range(2):
        with pytest.raises(LessonError, match="ask: victim"):
            course.advance()
        page_items(course, 0)
    engine.close()


def test_the_tests_before_and_after_ask_the_same_rules() -> None:
    kinds = {
        lesson.kind: [item.rule for item in lesson.items if isinstance(item, Ask)]
        for lesson in (read_lesson(path) for path in lesson_files(shipped_folder()))
        if lesson.kind != "lesson"
    }
    assert len(kinds["before"]) == 5 and kinds["before"] == kinds["after"]


def test_bytes_of_two_models_are_compared_at_the_same_number_of_blocks() -> None:
    """Two blocks of 4 slots take 24,576 B with 8 KV heads, 6,144 B with 2, and 3,072 B with 1."""
    header = BAD.replace("minutes = 1", 'minutes = 1\nmodel = "bundled-mha"')
    body = "do: prefill\ndo: restart model=bundled-gqa\nask: bytes_beside\ndo: prefill\n"
    body += "do: restart model=bundled-mqa\nask: bytes_beside\ndo: prefill\n"
    course = Course(lesson := parse_lesson(header + body, Path("x.md")), "en", lesson_engine_of(lesson))
    found = []
    course.advance()
    while course.checkpoint is not None:
        if question := course.question:
            found.append(([option.number for option in question.options], question.options[question.right].number))
            course.answer(question.right)
        course.advance()
    slots = 2 * 4 * 2 * 3 * 16 * 4  # blocks, slots, K and V, layers, head_dim, bytes, for one KV head
    assert [right for _, right in found] == [2 * slots, slots]
    assert {8 * slots, slots} < set(found[0][0]), "wrong answers: unchanged, and one head"
    assert {2 * slots, slots / 2} < set(found[1][0]), "wrong answers: unchanged, and a quarter"
    wrong = header + "do: prefill\ndo: restart block_size=2\nask: bytes_beside\ndo: prefill\n"
    (error,) = check(parse_lesson(wrong, Path("x.md")), builder)
    assert "it holds 3 blocks, but the previous run held 2" in error.sentence


def test_questions_are_repeated_only_in_lessons_whose_run_answers_them() -> None:
    """The run of lesson 4 answers `keys_read` and not `released`, and the lesson itself asks `query_uses`."""
    lesson = next(one for one in map(read_lesson, lesson_files(shipped_folder())) if one.id == "asked-once")
    again = {
        "forgetting/9": Ask(line=1, rule="released", arguments={}),
        "not-yet/5": Ask(line=1, rule="keys_read", arguments={}),
        "x/1": Ask(line=1, rule="query_uses", arguments={"position": "3"}),
    }
    engine = lesson_engine_of(lesson)
    course = Course(lesson, "en", engine, {}, again)
    questions: list[tuple[str | None, str]] = []
    course.advance()
    while course.checkpoint is not None:
        if isinstance(course.checkpoint, Ask):
            shown = page_items(course, course.at)[-1]
            assert isinstance(shown, AskItem) and shown.right is None and shown.evidence is None
            questions.append((shown.again, shown.rule))
            course.answer(None)
        course.advance()
    engine.close()
    assert [(name, rule) for name, rule in questions if name] == [("not-yet/5", "keys_read")]
    assert course.progress.num_items == len(lesson.items) + 1
