"""Recorded runs of a site, in place of runs that a click starts on a server. The page labels them as recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from app.recordings.shelf import SUFFIX
from app.scenes.museum import EXHIBITS, Exhibit
from app.scenes.presets import PRESETS
from app.scenes.scene_texts import prompts_of
from engine.config import USUAL_DRAFTS, EngineConfig, SamplingParams
from engine.engine import Engine
from engine.lab import faults
from engine.lab.change import TokenChange
from engine.lab.rerun import Rerun
from engine.model.capture import CaptureRequest
from engine.model.loaded import LoadedModel
from engine.model.loader import load_model
from engine.requests.request_spec import RequestSpec
from engine.trace.log import TraceReader
from engine.trace.records import Output

# lanes of the race's two sets of strategies, by the names of EngineConfig.strategy
LANES = ("none", "contiguous", "paged", "concat", "dynamic", "static")
DRAFTS = ("undrafted", "ngram", "draft-model")  # lanes of its set of drafts
# lanes of its last set, by the names of their models
SIBLINGS = ("bundled-mha", "bundled-gqa", "bundled-mqa", "bundled-hybrid")
FIRST_STEPS = 4  # first steps of an opening whose alternatives have futures
WORDS = 3  # most probable alternatives of such a step
IN_FAN = 5  # alternatives in the step of the opening's question
FUTURE = 24  # steps of a future
RACE = "moon"  # scene with the prompt of the race
RACE_TOKENS = 64


class Future(Struct, frozen=True, kw_only=True):
    """Run in which a word of a sequence is replaced, and the id of its recording."""

    of: str
    record: int
    seq: int
    token_id: int
    id: str


def record_futures(model: LoadedModel, path: Path, name: str, folder: Path) -> list[Future]:
    """Record the futures of request A in the opening's recording at `path`, whose id is `name`."""
    found = []
    with TraceReader(path) as log:
        for record, seq, token_id in _words(log):
            future = Future(of=name, record=record, seq=seq, token_id=token_id, id=f"{name}-{record}-{token_id}")
            record_future(model, log, future, FUTURE, folder / f"{future.id}{SUFFIX}")
            found.append(future)
    return found


def record_future(model: LoadedModel, log: TraceReader, future: Future, steps: int, path: Path) -> None:
    """Rerun `log` up to the record of the future, then continue with its word for `steps` steps."""
    config = msgspec.convert(log.header.engine, EngineConfig)
    capture = CaptureRequest(layers=[_captured_layer(log)], only=True)
    change = TokenChange(seq_id=future.seq, token_id=future.token_id)
    with Engine(model, config, log_path=path, capture=capture) as engine:
        Rerun(engine, log, future.record, change, follow=False).finish()
        play(engine, steps)


def play(engine: Engine, steps: int | None) -> None:
    """Run `steps` steps; None: until all requests have finished."""
    while engine.has_unfinished() and (steps is None or steps > 0):
        engine.step()
        steps = None if steps is None else steps - 1


def fan(log: TraceReader) -> tuple[int, Output]:
    """Return the record before B arrives with the least probable token of A, and its output.

    core/film.js has the same rule for the page.
    """
    return min(_outputs_of_a(log), key=lambda found: found[1].top[0].logprob)


def record_races(model: LoadedModel, language: str, folder: Path) -> None:
    """Record the same prompt with every strategy, with every kind of drafts, and on each sibling model."""
    scene = next(preset for preset in PRESETS if preset.id == RACE)
    sampling = SamplingParams(**scene.sampling | {"max_tokens": RACE_TOKENS})
    prompts = prompts_of("presets", RACE, language)
    for lane in LANES:
        config = EngineConfig(**scene.config, strategy=lane, count_copies=True)  # type: ignore[arg-type]
        _record_lane(model, config, RequestSpec(prompts[0], sampling), folder / f"race-{language}-{lane}{SUFFIX}")
    for name, drafts in zip(DRAFTS, (None, *USUAL_DRAFTS), strict=True):
        config = EngineConfig(**scene.config, count_copies=True, speculative_config=drafts)
        _record_lane(model, config, RequestSpec(prompts[0], sampling), folder / f"race-{language}-{name}{SUFFIX}")
    for name in SIBLINGS:
        sibling = load_model(name, device=str(model.device))
        config = EngineConfig(**scene.config, count_copies=True)
        _record_lane(sibling, config, RequestSpec(prompts[0], sampling), folder / f"race-{language}-{name}{SUFFIX}")


def _record_lane(model: LoadedModel, config: EngineConfig, request: RequestSpec, path: Path) -> None:
    with Engine(model, config, log_path=path) as engine:
        engine.add_requests([request])
        play(engine, None)


def record_exhibits(model: LoadedModel, language: str, folder: Path) -> None:
    """Record each exhibit of the museum, with and without its fault."""
    for exhibit in EXHIBITS:
        for lane in ("healthy", "faulty"):
            path = folder / f"museum-{exhibit.id.replace('_', '-')}-{language}-{lane}{SUFFIX}"
            _record_exhibit(model, exhibit, lane == "faulty", prompts_of("museum", exhibit.id, language), path)


def _record_exhibit(model: LoadedModel, exhibit: Exhibit, is_faulty: bool, prompts: list[str], path: Path) -> None:
    fields: dict[str, Any] = {**exhibit.config, "fault": exhibit.id if is_faulty else None, "enforce_eager": True}
    config = msgspec.convert(fields, EngineConfig)
    capture = CaptureRequest(dtype="float32", budget_bytes=16 << 20)
    sampling = msgspec.convert(exhibit.sampling, SamplingParams)
    requests = [RequestSpec(text, sampling) for text in prompts]
    if config.num_instances:
        with contextlib.closing(faults.make_cluster(model, config, log_path=path, capture=capture)) as cluster:
            cluster.submit(requests)
            while cluster.num_unfinished:
                cluster.step()
        return
    with faults.make_engine(model, config, log_path=path, capture=capture) as engine:
        engine.add_requests(requests)
        play(engine, None)


def _captured_layer(log: TraceReader) -> int:
    """Return the layer whose arrays are in the recording."""
    for index in range(len(log)):
        if (capture := log.capture(index)) is not None and capture.layers:
            return capture.layers[0].layer
    raise ValueError("the recording has no arrays")


def _outputs_of_a(log: TraceReader) -> list[tuple[int, Output]]:
    """Return records and outputs of A before B arrived."""
    named = {s.request_id: s for s in log.state_at(len(log) - 1).sequences.values()}
    records = range(named["B"].submitted_in)
    return [(i, out) for i in records for out in log.record(i).outputs if out.seq_id == named["A"].seq_id and out.top]


def _words(log: TraceReader) -> Iterator[tuple[int, int, int]]:
    """Yield record, sequence and token of the most probable words of A in its first steps, and in the fan."""
    least_sure = fan(log)
    for index, output in sorted(dict([*_outputs_of_a(log)[:FIRST_STEPS], least_sure]).items()):
        count = IN_FAN if index == least_sure[0] else WORDS
        yield from ((index, output.seq_id, word.token_id) for word in output.top[:count])
