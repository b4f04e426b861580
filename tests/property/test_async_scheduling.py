"""Asynchronous scheduling appends each record during the next step, and the log is the same and complete."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.capture import CaptureRequest
from engine.model.host_copy import CudaCopies, HostCopies
from engine.requests.request_spec import RequestError
from engine.trace import codec
from engine.trace.check import check
from engine.trace.log import TraceReader
from engine.trace.records import Timing
from tests.fake_cuda import FakeCuda
from tests.load.seams import config_of, fail_once, spec_of
from tests.unit.engine.runs import GREEDY, PROMPTS, log_of, tiny_llama

CONFIG = EngineConfig(block_size=4, num_blocks=32, max_model_len=64, async_scheduling=True)


def simulate_device(monkeypatch: pytest.MonkeyPatch, cuda: FakeCuda) -> None:
    copies = CudaCopies(torch.device("cpu"), cuda, pin_memory=False)
    for module in ("batch", "runner", "sampling"):
        monkeypatch.setattr(f"engine.model.{module}.host_copies", lambda device: copies)
    monkeypatch.setattr("engine.model.sampling.logit_kernels", lambda: None)


def log_random_run(seed: int, is_async: bool, path: Path) -> list[bytes]:
    """Return the log of a random run with preemption, swaps, prefix hits, chunks, samples, beams, stop strings, aborts
    and failed steps.
    """
    rng = random.Random(seed)
    config = replace(config_of(rng), async_scheduling=is_async)
    capture = CaptureRequest(budget_bytes=20_000) if seed % 2 else None
    with Engine(tiny_llama(), config, log_path=path, capture=capture) as engine:
        num_left = rng.randint(3, 10)
        while num_left or engine.has_unfinished():
            choice = rng.random()
            if num_left and choice < 0.3:
                num_left -= 1
                spec = spec_of(rng, num_left)
                if spec.sampling.temperature and rng.random() < 0.5:
                    spec = spec._replace(sampling=replace(spec.sampling, stop=["a", "e"]))
                try:
                    engine.add_requests([spec])
                except RequestError:
                    continue
            elif choice < 0.34:
                engine.abort(f"r{rng.randrange(10)}")
            elif choice < 0.38:
                fail_once(engine, rng.choice(["move_blocks", "execute", "sample"]))
            elif engine.has_unfinished():
                goes_on = rng.random() < 0.8
                try:
                    record = engine.step(goes_on)
                except MemoryError:
                    assert len(log_of(engine)) == engine._num_records, "a record is missing after a failed step"
                    continue
                if not goes_on:
                    assert log_of(engine).record(len(log_of(engine)) - 1) == record, "a single step is not deferred"
        assert len(log_of(engine)) == engine._num_records, "the last record is missing"
        engine.check_integrity()
    assert not list(check(path))
    with TraceReader(path) as log:
        found = []
        for index in range(len(log)):
            record = log.record(index)
            found.append(codec.encode(replace(record, timing=Timing(at=0.0))))
            found.append(codec.encode(log.capture(index)) if record.has_capture else b"")
        return found


@pytest.mark.parametrize("seed", range(12))
def test_the_log_does_not_depend_on_async_scheduling(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate_device(monkeypatch, FakeCuda())
    logs = [log_random_run(seed, is_async, tmp_path / f"{is_async}.kvtrace") for is_async in (False, True)]
    assert logs[0] == logs[1]


class RecordingCuda(FakeCuda):
    """Device that records the host's waits."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[str] = []

    def synchronize(self) -> None:
        self.events.append("wait")


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> RecordingCuda:
    cuda = RecordingCuda()
    simulate_device(monkeypatch, cuda)
    monkeypatch.setattr(HostCopies, "seconds", lambda *_: 0.0)
    monkeypatch.setattr(CudaCopies, "seconds", lambda *_: 0.0)
    return cuda


def record_events(engine: Engine, events: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    log_of(engine).subscribe(lambda record: events.append(f"{record.kind} {record.step}"))
    execute = engine._runner.execute

    def queue(*arguments: Any) -> Any:
        events.append("queue")
        return execute(*arguments)

    monkeypatch.setattr(engine._runner, "execute", queue)


def test_a_record_is_written_while_the_next_step_runs(cuda: RecordingCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    with Engine(tiny_llama(), CONFIG) as engine:
        record_events(engine, cuda.events, monkeypatch)
        engine.add_request(PROMPTS[0], replace(GREEDY, max_tokens=3))
        for _ in range(3):
            engine.step(goes_on=True)
        assert cuda.events == [
            "submit 0",
            *("queue", "wait"),
            *("queue", "step 1", "wait"),
            *("queue", "step 2", "wait", "step 3"),
        ]


def test_events_between_steps_are_logged_in_order(cuda: RecordingCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    """The events are an abort, a request and a failed step."""
    with Engine(tiny_llama(), CONFIG) as engine:
        record_events(engine, cuda.events, monkeypatch)
        one, two = (engine.add_request(prompt, GREEDY) for prompt in PROMPTS[:2])
        engine.step(goes_on=True)
        engine.abort(one.request_id)
        engine.step(goes_on=True)
        engine.add_request(PROMPTS[2], GREEDY)
        engine.step(goes_on=True)
        monkeypatch.setattr(engine._outputs.sampler, "sample", None)
        with pytest.raises(TypeError):
            engine.step(goes_on=True)
        monkeypatch.undo()
        assert not engine.has_unfinished() and two.finish_reason == "abort"
        kinds = [event for event in cuda.events if event not in ("queue", "wait")]
        assert kinds == ["submit 0", "submit 0", "step 1", "abort 1", "step 2", "submit 2", "step 3", "step 4"]


def test_rest_and_close_write_the_deferred_record(cuda: RecordingCuda, tmp_path: Path) -> None:
    for end in (Engine.rest, Engine.close):
        path = tmp_path / f"{end.__name__}.kvtrace"
        engine = Engine(tiny_llama(), CONFIG, log_path=path)
        engine.add_request(PROMPTS[0], GREEDY)
        engine.step(goes_on=True)
        assert len(log_of(engine)) == 1
        end(engine)
        with TraceReader(path) as log:
            assert len(log) == 2
        engine.close()


def test_a_full_disk_ends_the_log_and_the_requests(cuda: RecordingCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    with Engine(tiny_llama(), CONFIG) as engine:
        engine.add_request(PROMPTS[0], GREEDY)
        engine.step(goes_on=True)

        def full(*_: Any) -> None:
            raise OSError("no space left on device")

        monkeypatch.setattr(log_of(engine), "_write", full)
        with pytest.raises(OSError, match="no space"):
            engine.step(goes_on=True)
        assert len(log_of(engine)) == 1 and not engine.has_unfinished()


def test_records_are_not_deferred_on_a_cpu() -> None:
    with Engine(tiny_llama(), CONFIG) as engine:
        engine.add_request(PROMPTS[0], SamplingParams(max_tokens=3, ignore_eos=True))
        engine.step(goes_on=True)
        assert len(log_of(engine)) == 2
