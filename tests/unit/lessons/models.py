"""Cached models for the tests of lessons."""

from functools import cache

from app.ground.settings import ServerSettings
from app.models.engine_face import BuildEngine
from app.models.live_engine import engine_builder
from engine.model.loaded import LoadedModel
from engine.model.loader import load_model
from engine.setup.machine import measure_roofs


@cache
def loaded(name: str) -> LoadedModel:
    found = load_model(name)
    measure_roofs(found.device, found.dtype)
    return found


def builder(name: str) -> BuildEngine:
    return engine_builder(loaded(name), ServerSettings().max_pool_bytes)
