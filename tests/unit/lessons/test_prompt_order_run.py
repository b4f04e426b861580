"""Prompt orders that cannot be run, and invalid moves, leave the lesson unchanged."""

from collections.abc import Callable, Iterator
from functools import cache

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.ground.settings import ServerSettings
from app.lessons.catalogue import shipped_folder
from app.lessons.course import Course
from app.lessons.item_messages import page_items
from app.lessons.lesson import LessonError
from app.lessons.lesson_engine import NO_TIERS, BareLessonEngine, LessonPrompt
from app.lessons.lesson_sessions import replay
from app.lessons.messages import LessonAnswer
from app.lessons.parse import read_lesson, settings_of
from app.lessons.prompt_order import Mending, Move
from app.lessons.tiers import TierSizes
from app.models.engine_face import BuildEngine
from app.models.live_engine import engine_builder
from engine.config import EngineConfig, SamplingParams
from engine.model.loader import load_model

LESSON = "16-why-did-it-miss"


class FaultyLessonEngine(BareLessonEngine):
    """Engine whose call number `fail_at` fails once."""

    fail_at: int | None = None

    def _count(self) -> None:
        if self.fail_at is not None:
            self.fail_at -= 1
            if self.fail_at < 0:
                self.fail_at = None
                raise ValueError("the machine is out of order")

    def submit(self, prompts: list[LessonPrompt], sampling: SamplingParams) -> None:
        self._count()
        super().submit(prompts, sampling)

    def step(self) -> bool:
        self._count()
        return super().step()

    def restart(self, config: EngineConfig, model: str, tiers: TierSizes = NO_TIERS) -> None:
        self._count()
        super().restart(config, model, tiers)


@pytest.fixture(scope="module")
def builder() -> Callable[[str], BuildEngine]:
    return cache(lambda name: engine_builder(load_model(name), ServerSettings().max_pool_bytes, is_small=True))


@pytest.fixture
def course(builder: Callable[[str], BuildEngine]) -> Iterator[tuple[Course, FaultyLessonEngine]]:
    """Yield the lesson at the session that the learner reorders."""
    lesson = read_lesson(shipped_folder() / f"{LESSON}.md")
    engine = FaultyLessonEngine(builder, settings_of(lesson, {})[0], lesson.model)
    course = Course(lesson, "en", engine)
    replay(course, 10_000, {str(index): [None] for index in range(100) if index != work_of(course)})
    yield course, engine
    engine.close()


def work_of(course: Course) -> int:
    return next(index for index, item in enumerate(course.lesson.items) if getattr(item, "mends", False))


def state_of(course: Course) -> bytes:
    """Return all messages to a learner and the operations of the shown run."""
    log = course.log
    records = [log.record_bytes(index) for index in range(course.moment.records)]
    without_clock = [msgspec.msgpack.decode(record) for record in records]
    for record in without_clock:
        record.pop("timing", None)
    return (
        msgspec.json.encode([page_items(course), course.progress, course.moment, len(course.logs)])
        + repr([record["ops"] for record in without_clock]).encode()
    )


WRONG = Mending(moves=[Move(part="Time")])
RIGHT = Mending(moves=[Move(part="Note"), Move(part="Time"), Move(part="Read", before="Write")])


# `at` selects the restart, the first prompt, its steps, or those of a later prompt or a second run
@pytest.mark.parametrize(("tries", "at"), [*((0, at) for at in (0, 1, 2, 7, 12)), *((1, at) for at in (0, 1, 7, 30))])
def test_a_failed_order_leaves_the_lesson_unchanged(
    course: tuple[Course, FaultyLessonEngine], at: int, tries: int
) -> None:
    lesson, engine = course
    for _ in range(tries):
        assert not lesson.answer(WRONG)
    before = state_of(lesson)
    engine.fail_at = at
    with pytest.raises(LessonError, match="work: mend: the machine is out of order"):
        lesson.answer(WRONG)
    assert state_of(lesson) == before
    assert engine.log is lesson.log
    assert lesson.answer(RIGHT)


def test_a_session_over_the_step_limit_is_refused(
    course: tuple[Course, FaultyLessonEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    lesson, _ = course
    before = state_of(lesson)
    monkeypatch.setattr("app.lessons.runs.MAX_STEPS", 3)
    with pytest.raises(LessonError, match="not finished after 3 steps"):
        lesson.answer(RIGHT)
    assert state_of(lesson) == before
    monkeypatch.undo()
    assert lesson.answer(RIGHT)


NAMES = st.sampled_from(["Time", "Read", "Write", "Note", "Rule", "Ask", "More", "", "\x00", "Time: nine"]) | st.text(
    max_size=120
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | NAMES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
MOVE = st.fixed_dictionaries({"part": NAMES}, optional={"before": st.none() | NAMES}) | ANYTHING
GIVEN = st.fixed_dictionaries({"moves": st.lists(MOVE, max_size=80) | ANYTHING}) | ANYTHING.filter(
    lambda one: one is not None
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(answer=GIVEN)
def test_invalid_answers_leave_the_lesson_unchanged(course: tuple[Course, FaultyLessonEngine], answer: object) -> None:
    lesson, engine = course
    try:
        message = msgspec.convert({"theater": "t", "item": lesson.at, "given": answer}, LessonAnswer, strict=True)
    except msgspec.ValidationError:
        return
    if lesson.refusal(message.given) is None:
        return
    before, logs = (lesson.progress, lesson.moment, dict(lesson.answers)), list(lesson.logs)
    with pytest.raises(LessonError, match=r"^line \d+: .{8,}"):
        lesson.answer(message.given)
    assert (lesson.progress, lesson.moment, dict(lesson.answers)) == before and lesson.logs == logs
    assert engine.log is lesson.log
