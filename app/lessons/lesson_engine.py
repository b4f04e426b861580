"""Engine of a lesson's runs: the interface, and an implementation without a session for checks and exports."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from msgspec import Struct, structs

from app.lessons.tiers import LessonTiers, TierSizes
from app.models.engine_face import BuildEngine, EngineLike
from engine.config import EngineConfig, SamplingParams
from engine.lab.change import Change
from engine.model.shipped import as_seen
from engine.trace.log import TraceReader

NO_TIERS = TierSizes()


class LessonPrompt(Struct, frozen=True, kw_only=True):
    """Prompt of a lesson. Implements `app.models.engine_face.Prompt`."""

    text: str
    request_id: str | None = None
    priority: int = 0
    cache_salt: str | None = None
    after_steps: int = 0
    client: str | None = None
    waited: float = 0.0


class LessonEngine(Protocol):
    """Engine of a lesson. `log` is the complete log of the current run, including records hidden from viewers."""

    @property
    def log(self) -> TraceReader: ...
    def submit(self, prompts: list[LessonPrompt], sampling: SamplingParams) -> None:
        """Submit prompts. Their texts are normalized like those of prompts from the page."""

    def prefill(self) -> None: ...
    def step(self) -> bool:
        """Run a step. Returns False if nothing is left to compute."""

    def lose_instance(self, instance: int) -> None:
        """Kill an instance. Raises ValueError if it does not exist."""

    def restart(self, config: EngineConfig, model: str, tiers: TierSizes = NO_TIERS) -> None:
        """Start a new run on a model, with these tiers. Logs of earlier runs remain readable."""

    def fork(self, at: int, change: Change, config: EngineConfig) -> None:
        """Start a new run: the current one's first `at` records, then the change."""


class BareLessonEngine:
    """Lesson engine without a session: one engine per run of the lesson."""

    def __init__(
        self,
        builder: Callable[[str], BuildEngine],
        config: EngineConfig,
        model: str,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        """`builder` maps a model name to a builder of engines. `lock` is held during each step."""
        self._builder = builder
        self._lock = lock or nullcontext()
        self._engines: list[EngineLike] = []
        self._delayed: list[tuple[int, LessonPrompt, SamplingParams]] = []
        self._steps = 0
        self._tiers = LessonTiers()
        self.restart(config, model)

    @property
    def log(self) -> TraceReader:
        return self._engine.log

    def submit(self, prompts: list[LessonPrompt], sampling: SamplingParams) -> None:
        prompts = [structs.replace(prompt, text=as_seen(self._model, prompt.text)) for prompt in prompts]
        now = [prompt for prompt in prompts if not prompt.after_steps]
        if now:
            self._engine.submit(now, sampling)
        self._delayed += [(self._steps + p.after_steps, p, sampling) for p in prompts if p.after_steps]
        self._delayed.sort(key=lambda delayed: delayed[0])
        self._submit_due()

    def prefill(self) -> None:
        while self._engine.prefill_pending():
            with self._lock:
                record = self._engine.step()
            if record is None:
                continue
            self._steps += 1
            self._submit_due()
            if self._engine.config.num_instances == 0 and not any(entry.phase == "prefill" for entry in record.batch):
                break

    def step(self) -> bool:
        if not self._engine.num_unfinished():
            return False
        record = None
        while record is None and self._engine.num_unfinished():
            with self._lock:
                record = self._engine.step()
        self._steps += 1
        self._submit_due()
        return True

    def lose_instance(self, instance: int) -> None:
        with self._lock:
            self._engine.lose_instance(instance)

    def restart(self, config: EngineConfig, model: str, tiers: TierSizes = NO_TIERS) -> None:
        self._model = model
        self._engines.append(self._builder(model)(config, None, self._tiers.restart(tiers)))
        self._delayed, self._steps = [], 0

    def fork(self, at: int, change: Change, config: EngineConfig) -> None:
        source = self._engine.log
        self.restart(config, self._model)
        rerun = self._engine.rerun(source, at, change, follow=False)
        has_more = True
        while has_more:
            with self._lock:
                has_more = rerun.advance()

    def close(self) -> None:
        """Close every engine and delete their logs."""
        for engine in self._engines:
            engine.close()
        self._tiers.close()

    @property
    def _engine(self) -> EngineLike:
        return self._engines[-1]

    def _submit_due(self) -> None:
        while self._delayed and (self._delayed[0][0] <= self._steps or not self._engine.num_unfinished()):
            _, prompt, sampling = self._delayed.pop(0)
            self._engine.submit([prompt], sampling)
