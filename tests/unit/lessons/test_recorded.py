"""A recorded lesson equals the live one at each position and for each answer, in Python and in the page."""

import itertools
import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from app.cli import main
from app.ground.settings import ServerSettings
from app.lessons.answers import DoItem, MendItem, Moment, PageItem, WorkItem
from app.lessons.catalogue import shipped_folder
from app.lessons.course import Course, LearnerAnswer
from app.lessons.item_messages import page_items
from app.lessons.lesson import Ask, LessonError
from app.lessons.lesson_engine import BareLessonEngine
from app.lessons.lesson_replay import replay_state
from app.lessons.lesson_sessions import replay
from app.lessons.parse import read_lesson, settings_of
from app.lessons.prompt_order import Mending, Move, moves_error, name_of
from app.lessons.recorded import recorded_lessons
from app.lessons.transcript import Recorded, read_transcript, record, transcript_name, write_recorded
from app.models.engine_face import BuildEngine
from app.models.live_engine import engine_builder
from app.models.observed_layers import SMALL_BUDGET
from engine.model.loader import load_model
from engine.trace.log import TraceReader
from tests.js.node_run import node_output

# lessons with one run, several runs, several models, one try, and a prompt order
LESSONS = ("02-not-yet", "07-pages", "06-what-it-costs", "00-before", "16-why-did-it-miss")


@pytest.fixture(scope="module")
def builder() -> Callable[[str], BuildEngine]:
    return cache(lambda name: engine_builder(load_model(name), ServerSettings().max_pool_bytes, is_small=True))


@pytest.fixture(scope="module", params=LESSONS)
def recorded(request: pytest.FixtureRequest, builder: Callable[[str], BuildEngine]) -> Recorded:
    return record(read_lesson(shipped_folder() / f"{request.param}.md"), "en", builder)


Answers = dict[str, list[LearnerAnswer]]


def unsure_answers(recorded: Recorded) -> Answers:
    transcript = recorded.transcript
    return {index: [None] for index in (*transcript.keys, *transcript.works, *transcript.mended)}


def answers_of(recorded: Recorded) -> list[Answers]:
    """Return lists of answers: none, unsure, right, wrong twice, wrong then right, and invalid then right."""
    found: list[Answers] = [{}]
    for pattern in ("unsure", "right", "wrong", "second", "stray"):
        answers: Answers = {}
        for index, key in recorded.transcript.keys.items():
            wrong = [k for k in range(len(key.whys)) if k != key.right]
            by_pattern: Answers = {
                "unsure": [None],
                "right": [key.right],
                "wrong": [*wrong[:2]],
                "second": [wrong[0], key.right],
                "stray": [999, key.right],
            }
            answers[index] = by_pattern[pattern]
        for index, done in recorded.transcript.works.items():
            moves = [one.move for one in done]
            lists: Answers = {"unsure": [None], "right": [moves], "wrong": [moves[1:]], "stray": [999, moves]}
            answers[index] = lists.get(pattern, [moves[::-1], moves])
        for index, mended in recorded.transcript.mended.items():
            right, wrong_moves = Mending(moves=mended.run.moves), Mending(moves=mended.run.moves[1:])
            stray = Mending(moves=[Move(part="none such")])
            mendings: Answers = {
                "unsure": [None],
                "right": [right],
                "wrong": [
                    wrong_moves,
                    Mending(moves=[Move(part="Time", before="Last"), Move(part="Note", before="Told")]),
                ],
                "second": [wrong_moves, Mending(moves=[*mended.run.moves, Move(part="Write", before="Read")])],
                "stray": [999, stray, right],
            }
            answers[index] = mendings[pattern]
        found.append(answers)
    return found


def graded(item: PageItem) -> PageItem:
    """Return the item without the fields that only live lessons have."""
    if not isinstance(item, WorkItem):
        return item
    lists = [
        graded_list and structs.replace(graded_list, verdicts=[one.grade for one in graded_list.verdicts])
        for graded_list in item.given
    ]
    return structs.replace(item, given=lists)


def test_a_recorded_lesson_equals_the_live_one(recorded: Recorded, builder: Callable[[str], BuildEngine]) -> None:
    path = next(path for path in shipped_folder().glob("*.md") if read_lesson(path).id == recorded.transcript.lesson)
    lesson = read_lesson(path)
    stops = [item.index for item in recorded.transcript.items if item.__class__.__name__ in ("AskItem", "DoItem")]
    for answers in answers_of(recorded):
        for index, done in recorded.transcript.works.items():  # a live lesson also accepts other lists
            if answers and answers[index] != [None]:
                answers[index] = [[one.move for one in done]]
        for index, mended in recorded.transcript.mended.items():  # a live lesson runs any order
            if answers and answers[index] != [None]:
                answers[index] = [Mending(moves=mended.run.moves)]
        for at in (*stops[::3], 10_000):
            engine = BareLessonEngine(builder, settings_of(lesson, {})[0], lesson.model)
            course = Course(lesson, "en", engine)
            replay(course, at, {k: [g for g in key_answers if g != 999] for k, key_answers in answers.items()})
            shown = replay_state(recorded.transcript, at, answers)
            assert [graded(item) for item in shown.items] == [graded(item) for item in page_items(course)]
            assert shown.progress == course.progress
            assert shown.moment == course.moment
            engine.close()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_offline_grading_of_a_prompt_order_equals_grading_by_its_run(
    language: str, builder: Callable[[str], BuildEngine]
) -> None:
    lesson = read_lesson(shipped_folder() / "16-why-did-it-miss.md")
    transcript = record(lesson, language, builder).transcript
    (index,) = transcript.mended
    item = transcript.items[int(index)]
    assert isinstance(item, MendItem)
    time, read, write, note = item.movable
    last = [Move(part=note), Move(part=time)]
    names = [name_of(line) for line in item.before[-1].lines]
    chance = random.Random(3)
    tried = [
        [*last, Move(part=write, before=read)],
        [*last, Move(part=read, before=write), Move(part=write, before=read)],
        [Move(part=time), Move(part=note), Move(part=read, before=write)],
        [*last, Move(part=read), Move(part=write)],
        *([Move(part=chance.choice(item.movable), before=chance.choice(names)) for _ in range(3)] for _ in range(9)),
    ]
    verdicts: list[bool] = []
    for moves in tried:
        if moves_error(item.before, item.movable, moves):
            continue
        engine = BareLessonEngine(builder, settings_of(lesson, {})[0], lesson.model)
        course = Course(lesson, language, engine)
        answers: Answers = {**{key: [None] for key in transcript.keys}, index: [Mending(moves=moves)]}
        replay(course, 10_000, answers)
        shown = replay_state(transcript, 10_000, answers).items[int(index)]
        assert isinstance(shown, MendItem)
        (live,), (offline,) = course.mended(int(index)), shown.given
        assert offline is not None and offline.right == live.right, moves
        verdicts.append(live.right)
        engine.close()
    assert verdicts[:3] == [True] * 3, "right answers that differ from the recorded one"
    assert verdicts.count(False) > 3


def test_the_recorded_runs_equal_those_of_the_lesson(recorded: Recorded, tmp_path: Path) -> None:
    write_recorded(recorded, tmp_path)
    last = replay_state(recorded.transcript, 10_000, unsure_answers(recorded))
    assert last.progress.over and last.moment.run == len(recorded.runs) - 1
    traces = sorted(tmp_path.glob("*.kvtrace"))
    assert len(traces) == recorded.transcript.num_runs
    with TraceReader(traces[-1]) as log:
        assert len(log) == last.moment.records
        for index in range(len(log)):
            assert len(log.capture_bytes(index) or b"") < 2 * SMALL_BUDGET
    assert read_transcript(tmp_path / transcript_name(recorded.transcript.lesson, "en")) == recorded.transcript


def test_a_long_stretch_is_sent_in_parts_with_its_arrays(recorded: Recorded, tmp_path: Path) -> None:
    write_recorded(recorded, tmp_path)
    lessons, transcript = recorded_lessons(tmp_path), recorded.transcript
    last = replay_state(transcript, 10_000, unsure_answers(recorded))
    records: list[bytes] = []
    captures: list[bytes | None] = []
    while len(records) < last.moment.records:
        part = lessons.record_range(transcript, last, len(records), 1)
        assert part.first == len(records) and len(part.records) == 1
        records += part.records
        captures += part.captures
    stretch = lessons.record_range(transcript, last, 0, 1 << 30)
    assert (stretch.records, stretch.captures) == (records, captures) and any(captures)


@pytest.mark.slow
def test_the_page_replays_a_lesson_like_the_server(recorded: Recorded) -> None:
    places = [-1, *range(0, len(recorded.transcript.items) + 2)]
    cases = list(itertools.product(places, answers_of(recorded)))
    document = json.dumps(msgspec.to_builtins({"transcript": recorded.transcript, "asked": cases}))
    output = node_output("lesson_replay_dump.mjs", given=document)
    for (at, answers), line in zip(cases, output.splitlines(), strict=True):
        assert json.loads(line) == msgspec.to_builtins(replay_state(recorded.transcript, at, answers)), (at, answers)


def test_no_answer_is_sent_before_it_is_given(recorded: Recorded) -> None:
    first = next(iter(recorded.transcript.keys))
    shown = replay_state(recorded.transcript, 10_000, {})
    assert shown.at == int(first) and shown.items[-1].index == int(first)
    sent = msgspec.json.encode(shown)
    assert b'"right":null' in sent and b'"evidence":null' in sent
    done = [item.moment for item in recorded.transcript.items[: int(first)] if isinstance(item, DoItem)]
    assert shown.moment == (done[-1] if done else Moment(run=0, records=0)), "no record after the question"


def test_invalid_recorded_lessons_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no recorded lessons"):
        recorded_lessons(tmp_path)
    (tmp_path / "x.en.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match=r"x\.en\.json is not a recorded lesson"):
        recorded_lessons(tmp_path)
    with pytest.raises(LessonError, match="not a recorded lesson"):
        read_transcript(tmp_path / "x.en.json")
    assert main(["replay", "--lessons", str(tmp_path), "--port", "0", "--data-dir", str(tmp_path / "d")]) == 2


def test_a_lesson_is_exported_as_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, folder = tmp_path / "a.html", tmp_path / "r"
    assert main(["lesson", "export", "not-yet", "-o", str(page), "--language", "zh"]) == 0
    text = page.read_text(encoding="utf-8")
    assert 'id="embedded-lesson-zh-0"' in text and "embedded-lesson-en" not in text and 'id="embedded-log"' not in text
    assert main(["lesson", "export", "not-yet", "-o", str(page)]) == 2
    assert main(["lesson", "export", "not-yet", "-o", str(page), "--force", "--language", "xx"]) == 2
    assert main(["lesson", "export", "none-such"]) == 2
    assert "there is no lesson 'none-such'" in capsys.readouterr().err
    assert main(["lesson", "record", "not-yet", "-o", str(folder)]) == 0
    assert [card.id for card in recorded_lessons(folder).cards] == ["not-yet"]
    lesson = read_lesson(shipped_folder() / "02-not-yet.md")
    assert recorded_lessons(folder).cards[0].num_questions == sum(isinstance(item, Ask) for item in lesson.items)
