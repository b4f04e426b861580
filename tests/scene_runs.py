"""Scenes of the page, run to completion on an engine as a session runs them."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from app.scenes.presets import PRESETS, Preset
from app.scenes.scene_texts import prompts_of
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.loaded import LoadedModel
from engine.requests.request import Request
from engine.trace.operations import Op
from engine.trace.records import StepRecord


class Played(NamedTuple):
    """Complete run: all records, the records of steps, and the text of each request."""

    records: list[StepRecord]
    texts: list[list[int]]

    @property
    def steps(self) -> list[StepRecord]:
        return [record for record in self.records if record.kind == "step"]

    def ops(self, kind: type[Op]) -> list[tuple[int, Op]]:
        """Return the operations with the indices of their records."""
        return [(record.index, op) for record in self.records for op in record.ops if isinstance(op, kind)]


def scene(scene_id: str) -> Preset:
    return next(preset for preset in PRESETS if preset.id == scene_id)


def play(
    model: LoadedModel,
    scene_id: str,
    language: str,
    *,
    trace: Path | None = None,
    after_each: Callable[[Engine], object] = lambda engine: None,
    **config: object,
) -> Played:
    """Run the scene in one language. `config` overrides settings; `after_each` is called after each step."""
    preset = scene(scene_id)
    settings = msgspec.convert({**preset.config, **config}, EngineConfig)
    sampling = msgspec.convert(preset.sampling, SamplingParams)
    prompts = prompts_of("presets", scene_id, language)
    due = preset.after_steps or [0] * len(prompts)
    steps = 0
    with Engine(model, settings, log_path=trace) as engine:
        requests: list[Request] = []
        while engine.has_unfinished() or len(requests) < len(prompts):
            while len(requests) < len(prompts) and due[len(requests)] <= steps:
                requests.append(engine.add_request(prompts[len(requests)], sampling))
            engine.step()
            steps += 1
            after_each(engine)
        assert engine.log is not None
        records = [engine.log.record(index) for index in range(len(engine.log))]
        return Played(records, [request.output_token_ids for request in requests])
