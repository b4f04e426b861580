"""Race of a lesson: one of its prompts in several lanes, for each of which the page runs a session."""

from __future__ import annotations

from collections.abc import Callable

from app.lessons.answers import RaceSetup
from app.lessons.lesson import Action, Do, Lesson, LessonError
from app.lessons.lesson_engine import BareLessonEngine, LessonPrompt
from app.lessons.parse import settings_of
from app.models.engine_face import BuildEngine
from engine.config import Strategy

# strategies of the lanes by set, as in static/js/panels/race/model.js; lanes of "models" differ in the model
STRATEGIES: dict[str, tuple[Strategy, ...]] = {
    "strategies": ("none", "contiguous", "paged"),
    "caches": ("concat", "dynamic", "static", "paged"),
    "models": ("paged",),
}


def race_setup(lesson: Lesson, language: str, action: Action) -> RaceSetup:
    """Return the race for the page. It uses the lesson's settings and does not depend on the current run."""
    config = {name: value for name, value in lesson.config.items() if name != "strategy"}
    prompt = lesson.prompts[language][action.prompts[0]]
    return RaceSetup(lanes=action.lanes, prompt=prompt, config=config, sampling=lesson.sampling, model=lesson.model)


def race_faults(lesson: Lesson, language: str, builder: Callable[[str], BuildEngine]) -> list[LessonError]:
    """Return an error for each lane of a race that cannot be completed, with the engine's error."""
    found = []
    for item in lesson.items:
        if isinstance(item, Do) and item.action.verb == "race":
            for strategy in STRATEGIES[item.action.lanes]:
                try:
                    _run(lesson, lesson.prompts[language][item.action.prompts[0]], strategy, builder)
                except ValueError as error:
                    found.append(LessonError(item.line, f"[{language}] do: race: {strategy}: {error}"))
    return found


def _run(lesson: Lesson, prompt: str, strategy: Strategy, builder: Callable[[str], BuildEngine]) -> None:
    changes: dict[str, object] = {"strategy": strategy, "count_copies": True}
    if strategy in STRATEGIES["caches"][:-1]:
        changes["kv_cache_dtype"] = "auto"  # transformers' caches have the model's dtype
    config, sampling = settings_of(lesson, changes)
    engine = BareLessonEngine(builder, config, lesson.model)
    try:
        engine.submit([LessonPrompt(text=prompt)], sampling)
        while engine.step():
            pass
    finally:
        engine.close()
