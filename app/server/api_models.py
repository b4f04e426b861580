"""`/api/model`, `/api/models` and `/api/machine`: models, their device, and the machine."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import NamedTuple

import flask
from flask import Request, Response
from msgspec.structs import replace

from app import __version__
from app.ground import routing
from app.ground.errors import AppError, refuse
from app.ground.routing import Route, json_answer
from app.ground.settings import ServerSettings
from app.models.engine_face import ServedModel
from app.models.pool_bytes import pool_bytes
from app.models.registry import Models
from app.openai.sessions import ApiSessions
from app.page.options import page_tables
from app.scenes.museum import EXHIBITS
from app.scenes.presets import PRESETS
from app.scenes.scene_texts import scene_texts
from app.server.api_answers import DeviceMemory, ListedModel, ModelAnswer, ModelsAnswer
from app.session.log_session import ATTACHED
from app.session.session_manager import SessionManager
from engine.config import SamplingParams
from engine.options.payload import options_payload


class ModelsContext(NamedTuple):
    """Context of the endpoints."""

    sessions: SessionManager
    models: Models
    settings: ServerSettings
    api: ApiSessions | None  # None: the server has no OpenAI-compatible API


def model_facts(context: ModelsContext, request: Request) -> Response:
    """Return the facts that a client needs to create a session: model, defaults, options, scenes, limits.

    `?model=` selects another model than the first. If it is not loaded, loading starts and the response is `loading` at
    once, since a worker thread must not wait; the client retries.
    """
    with ExitStack() as stack:
        name = request.args.get("model")
        is_live = context.models.is_live
        return _model_facts(context, stack.enter_context(context.models.lease(name, wait=0)).model if is_live else None)


def _model_facts(context: ModelsContext, model: ServedModel | None) -> Response:
    config = context.settings.config_of(model.facts.name if model else None)
    answer: ModelAnswer = {
        "version": __version__,
        "live": model is not None,
        "model": model.facts if model else None,
        "tokenizer": model.tokenizer_facts if model else None,
        "kv_bytes_per_token": model.kv_bytes_per_token if model else None,
        "config": config,
        "sampling": SamplingParams(),
        "options": options_payload(page_tables(config, model.facts if model else None)),
        "presets": [scene_texts("presets", preset) for preset in PRESETS],
        "museum": [scene_texts("museum", exhibit) for exhibit in EXHIBITS],
        "machine": model.machine if model else None,
        "api": context.api.session_of_model(None).session.session_id if model and context.api else None,
        "attached": ATTACHED if context.sessions.is_log_session(ATTACHED) else None,
        "limits": {
            "max_theaters": context.settings.max_theaters,
            "max_prompts": context.settings.max_prompts,
            "max_prompt_bytes": context.settings.max_prompt_bytes,
            "max_pool_bytes": context.settings.max_pool_bytes,
        },
    }
    return json_answer(answer)


def models(context: ModelsContext, request: Request) -> Response:
    """Return every model of the server with its loading status, its memory, and its runs."""
    listed: list[ListedModel] = []
    sessions = [session.model_name for session in context.sessions.all()]
    for served in context.models.all() if context.models.is_live else []:
        listed.append(
            {
                "status": served.status(),
                "theaters": sessions.count(served.name),
                "model": served.facts,
                "kv_bytes_per_token": served.kv_bytes_per_token,
            }
        )
    answer: ModelsAnswer = {
        "models": listed,
        "bytes": context.models.num_bytes,
        "max_bytes": context.models.max_bytes,
        "device": _device(context) if context.models.is_live and context.models.first.is_loaded else None,
    }
    return json_answer(answer)


def _device(context: ModelsContext) -> DeviceMemory:
    """Return the device's memory use. The pools' bytes exclude the CPU memory for swapped blocks."""
    pools = logs = 0
    for session in context.sessions.all():
        with suppress(AppError):  # the session is closing
            run = session.run
            logs += run.full_log.num_bytes
            if run.config.by_sequence is None:
                pools += pool_bytes(replace(run.config, preemption_mode="recompute"), session.model.facts)
    return {
        "facts": context.models.first.model.device,
        "weights_bytes": context.models.num_bytes,
        "pools_bytes": pools,
        "logs_bytes": logs,
    }


def unload(context: ModelsContext, request: Request, name: str) -> Response:
    """Unload a model. An idle session of the API on it is closed first."""
    if context.api is not None:
        context.api.close_if_idle(name)
    context.models.unload(name)
    return models(context, request)


def machine(context: ModelsContext, request: Request) -> Response:
    """Return the machine with the roofs of its roofline, which the first request measures."""
    if not context.models.is_live:
        raise refuse("not_found", "machine.none")
    return json_answer(context.sessions.measured_machine(context.models.first.model))


ROUTES = [
    Route("GET", "/model", model_facts),
    Route("GET", "/models", models),
    Route("DELETE", "/models/<path:name>", unload),
    Route("GET", "/machine", machine),
]


def blueprint(
    sessions: SessionManager, models: Models, settings: ServerSettings, api: ApiSessions | None = None
) -> flask.Blueprint:
    """Return the blueprint of the server's models and device, under /api."""
    return routing.blueprint("models", "/api", ModelsContext(sessions, models, settings, api), ROUTES)
