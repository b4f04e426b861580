"""Recording of a lesson on its models, without a server. Import it lazily, because it imports torch."""

from __future__ import annotations

from app.ground.settings import ServerSettings
from app.lessons.lesson import Lesson
from app.lessons.transcript import Recorded, record
from app.models.live_engine import engine_builder
from engine.model.loader import load_model
from engine.setup.machine import measure_roofs


def record_lesson(lesson: Lesson, languages: list[str]) -> list[Recorded]:
    """Record the lesson in these languages.

    Raises:
        ModelError: a model cannot be loaded.
        LessonError: the lesson has an error.
    """
    max_bytes, models = ServerSettings().max_pool_bytes, {name: load_model(name) for name in lesson.models}
    builders = {name: engine_builder(model, max_bytes, is_small=True) for name, model in models.items()}
    if lesson.wants_roofs:
        first = models[lesson.model]
        measure_roofs(first.device, first.dtype)
    return [record(lesson, language, builders.__getitem__) for language in languages]
