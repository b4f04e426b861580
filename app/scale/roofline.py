"""Section "Compute or bandwidth" of /scale: steps of a model under two roofs, over batch and context.

The roofs are measured on this machine, or taken from a GPU's data sheet. The model is the server's, or a preset.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import flask
from flask import Request, Response

from app.ground import routing
from app.ground.routing import Route, json_answer
from app.models.registry import Models
from app.scale.errors import MeasuredOn, measured_on
from app.scale.request import ListOption, Query, refusal, refused, with_own_presets
from app.scale.size import own_presets
from app.scale.steps import ServedDtype, Subject, answer, published, served_in
from app.session.session_manager import SessionManager
from engine.accounting.presets import DTYPE, GpuPreset, ModelPreset
from engine.accounting.roofline_steps import Roof
from engine.accounting.shape import ModelShape
from engine.accounting.sources import OF_MODELS, SourceFacts
from engine.bench.prediction_error import SCENARIO as STEP_TIME
from engine.bench.record import RESULTS
from engine.trace.records import Machine

HERE, RECORDED = "here", "recorded"


class RooflineContext(NamedTuple):
    """Context of the endpoint. `results`: folder of published records; `data_dir`, `presets`: paths of a user's own
    presets.
    """

    sessions: SessionManager
    models: Models
    results: Path
    data_dir: Path | None = None
    presets: Path | None = None


def subject(context: RooflineContext, query: Query) -> Subject:
    """Return the requested model and roofs. The default is this machine's if the server has a model, else the first in
    the lists.

    This machine may have two pairs of roofs: those in the record `step-time`, of an idle machine with the same
    processor, and the current ones.

    Raises:
        AppError: the choice is not in the lists, or the GPU does not support the dtype.
    """
    live = context.models.first.facts if context.models.is_live else None
    known = with_own_presets(own_presets(context.data_dir, context.presets))
    counted = [preset for preset in known.models.values() if preset.is_counted]
    models = [_option(preset) for preset in counted]
    gpus = [_option(preset) for preset in known.gpus.values()]
    recorded: Machine | None = None
    if live:
        models.insert(0, {"id": HERE, "name": live.name})
        gpus.insert(0, {"id": HERE, "name": HERE})
        record = published(context.results, STEP_TIME)
        if record and _has_roofs_of(record.environment.machine, context.models.first.model.machine):
            recorded = record.environment.machine
            gpus.insert(0, {"id": RECORDED, "name": RECORDED})
    model = _chosen(query, "model", models)
    gpu = _chosen(query, "gpu", gpus)
    shape: ModelShape | None = live if model == HERE else known.models[model]
    assert shape is not None
    dtypes: list[str] = []
    served: ServedDtype | None = None
    measured: MeasuredOn | None = None
    sources: list[SourceFacts] = [] if model == HERE else known.models[model].source_facts(OF_MODELS)
    if gpu in (HERE, RECORDED):
        found = recorded if gpu == RECORDED else context.sessions.measured_machine(context.models.first.model)
        assert found is not None and found.roofs is not None
        flops, bandwidth, source = found.roofs.flops_per_second, found.roofs.bytes_per_second, gpu
    else:
        card = known.gpus[gpu]
        dtypes = list(card.flops_per_second)
        dtype = query.get("dtype") or (shape.dtype if shape.dtype in dtypes else DTYPE)
        if dtype not in dtypes:
            raise refusal("no_such_dtype", gpu=card.name, dtype=dtype[:40], known=", ".join(dtypes))
        served = served_in(shape, dtype)
        measured = measured_on(card, known)
        rates = {"peak_flops": f"flops_per_second.{dtype}", "bandwidth": "bytes_per_second"}
        sources += card.source_facts(rates)
        source = "; ".join(dict.fromkeys(card.source_of(figure).says for figure in rates.values()))
        flops, bandwidth = card.flops_per_second[dtype], card.bytes_per_second
    roof = Roof(flops_per_second=flops, bytes_per_second=bandwidth, source=source)
    is_here = model == HERE and gpu in (HERE, RECORDED)
    is_loading = live is None and context.models.first.is_loading
    return Subject(shape, roof, is_here, gpu == RECORDED, models, gpus, is_loading, dtypes, served, measured, sources)


def _has_roofs_of(recorded: Machine, machine: Machine) -> bool:
    keys = [(each.device, each.processor, each.num_threads) for each in (recorded, machine)]
    return keys[0] == keys[1] and recorded.roofs is not None


def _option(preset: ModelPreset | GpuPreset) -> ListOption:
    return {"id": preset.id, "name": preset.name}


def _chosen(query: Query, name: str, options: list[ListOption]) -> str:
    ids = [option["id"] for option in options]
    found = query.get(name, ids[0])
    if found not in ids:
        raise refusal("unknown", name=name, asked=found[:40], known=", ".join(ids))
    return found


def roofline(context: RooflineContext, request: Request) -> Response:
    """Return steps of a model under the roofs of a device for the settings in the URL."""
    try:
        return json_answer(answer(subject(context, request.args), context.results, request.args))
    except ValueError as error:
        raise refused(error) from error


ROUTES = [Route("GET", "/roofline", roofline)]


def blueprint(
    sessions: SessionManager, models: Models, data_dir: Path | None = None, presets: Path | None = None
) -> flask.Blueprint:
    """Return the blueprint of /api/scale/roofline."""
    context = RooflineContext(sessions, models, RESULTS, data_dir, presets)
    return routing.blueprint("scale_roofline", "/api/scale", context, ROUTES)
