"""Run of a workload on the engine: requests are submitted when due, and times are measured as a caller sees them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from engine.accounting.memory import stored_bytes_per_token
from engine.bench.errors import Cancelled
from engine.bench.measurement import EngineWork, Measurement, Observer, Timeline
from engine.bench.outside import tier_connector
from engine.bench.tiers import TierSizes
from engine.bench.workload import WorkloadRequest
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.capture import CaptureRequest
from engine.model.loaded import LoadedModel
from engine.requests.request import Request
from engine.requests.request_spec import RequestSpec

CAPTURE_EVERYTHING = 1 << 30  # bytes per step
NO_TIERS = TierSizes()


def run_engine(
    model: LoadedModel,
    config: EngineConfig,
    requests: list[WorkloadRequest],
    sampling: SamplingParams,
    *,
    tiers: TierSizes = NO_TIERS,
    observer: Observer = "none",
    log_path: Path | None = None,
    on_engine: Callable[[Engine], None] = lambda _: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Measurement:
    """Serve all requests and return the measurement.

    Constructing the engine and opening its tiers are not timed. A token's time is the return of the step that sampled
    it, after log and captures are written. A request's time begins at its arrival, even during a step. `on_engine`
    is called with the engine before the first request.

    Raises:
        Cancelled: `cancelled` returned True between two steps.
        ConfigError, RequestError: the engine rejects the settings or a request.
    """
    keep_log = observer != "none" or log_path is not None
    capture = CaptureRequest(budget_bytes=CAPTURE_EVERYTHING) if observer == "capture" else None
    with (
        tier_connector(tiers, model, config) as connector,
        Engine(model, config, log_path=log_path, capture=capture, connector=connector, keep_log=keep_log) as engine,
    ):
        on_engine(engine)
        found = _serve(engine, requests, sampling, cancelled)
        if found.work is not None and connector is not None:
            found.work.estimates = connector.estimates
        return found


def _serve(
    engine: Engine, requests: list[WorkloadRequest], sampling: SamplingParams, cancelled: Callable[[], bool]
) -> Measurement:
    bytes_per_token = stored_bytes_per_token(engine.model.facts, engine.config.kv_cache_dtype)
    timeline, work = Timeline(), EngineWork(kv_bytes_per_token=bytes_per_token)
    submitted: list[Request | None] = [None] * len(requests)
    waiting = sorted(range(len(requests)), key=lambda i: (requests[i].at, requests[i].at_step, i))
    began = time.perf_counter()
    now = 0.0

    def ended(index: int) -> float | None:
        request = submitted[index]
        if request is None or request.finish_reason is None:
            return None
        times = timeline.requests[request.request_id]
        return times.tokens[-1] if times.tokens else now

    def earlier_tokens(request: WorkloadRequest) -> list[int]:
        before = submitted[request.after] if request.after is not None and not request.is_whole else None
        return before.sequence.token_ids if before is not None else []

    while waiting or engine.has_unfinished():
        due = due_now(requests, waiting, ended, now, work.num_steps, not engine.has_unfinished())
        if due:
            waiting = [i for i in waiting if i not in due]
            specs = [spec_of(requests[i], earlier_tokens(requests[i]), sampling, f"bench-{i}") for i in due]
            for i, request in zip(due, engine.add_requests(specs), strict=True):
                submitted[i] = request
                # a request arrives when scheduled; a request that waited for a step or a turn arrives now
                timed = requests[i].after is None and requests[i].at_step == 0
                for position, token_id in enumerate(requests[i].chosen, len(requests[i].prompt)):
                    engine.choose(request.seq_id, token_id, position)
                timeline.submitted(
                    request.request_id, request.seq_id, requests[i].at if timed else now, requests[i].late
                )
        if engine.has_unfinished():
            before_step = time.perf_counter()
            record = engine.step(goes_on=True)
            done = time.perf_counter()
            now = done - began
            timeline.add(record, now)
            work.add(record, done - before_step)
        else:
            now = time.perf_counter() - began
            time.sleep(max(0.0, min(at for i in waiting if (at := due_of(requests[i], ended)) is not None) - now))
            now = time.perf_counter() - began
        if cancelled():
            raise Cancelled
    engine.rest()
    served = [request for request in submitted if request is not None]
    return Measurement(
        seconds=now,
        requests=[timeline.requests[request.request_id] for request in served],
        outputs=[[list(output.output_token_ids) for output in request.outputs] for request in served],
        work=work,
    )


def due_of(request: WorkloadRequest, ended: Callable[[int], float | None]) -> float | None:
    """Return the earliest arrival of a request in seconds; None while the previous turn is unfinished."""
    if request.after is None:
        return request.at
    before = ended(request.after)
    return None if before is None else max(request.at, before + request.think)


def due_now(
    requests: list[WorkloadRequest],
    waiting: list[int],
    ended: Callable[[int], float | None],
    now: float,
    num_steps: int,
    idle: bool,
) -> list[int]:
    """Return the indices of waiting requests that are due.

    An idle engine never reaches the `at_step` of the next request, so it is ignored if no other request is due.
    `ended`: returns the end of a request by its index, in seconds, or None.
    """
    ready = [i for i in waiting if (at := due_of(requests[i], ended)) is not None and at <= now]
    due = [i for i in ready if requests[i].at_step <= num_steps]
    if due or not idle or not ready:
        return due
    first = min(requests[i].at_step for i in ready)
    return [i for i in ready if requests[i].at_step == first]


def spec_of(request: WorkloadRequest, earlier: list[int], sampling: SamplingParams, request_id: str) -> RequestSpec:
    """Return the request for the engine. `earlier`: prompt and output of the previous turn."""
    own = replace(sampling, max_tokens=request.output_tokens, seed=request.seed)
    return RequestSpec([*earlier, *request.prompt], own, request_id=request_id)
