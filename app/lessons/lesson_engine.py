"""Engine of a lesson's run: a bare one for checking and exporting, or that of a session with viewers."""

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
    """Prompt of a lesson, as `app.models.engine_face.Prompt` has it."""

    text: str
    request_id: str | None = None
    priority: int = 0
    cache_salt: str | None = None
    after_steps: int = 0
    client: str | None = None
    waited: float = 0.0


class LessonEngine(Protocol):
    """Engine of a lesson. `log` is the complete current run, including records hidden from viewers."""

    @property
    def log(self) -> TraceReader: ...
    def submit(self, prompts: list[LessonPrompt], sampling: SamplingParams) -> None:
        """Submit prompts with texts as the model sees them, like a learner's own prompts."""

    def prefill(self) -> None: ...
    def step(self) -> bool:
        """Run a step; return False if nothing is left to compute."""

    def lose(self, instance: int) -> None:
        """End an instance as if its process were killed. Raises ValueError: no such instance."""

    def restart(self, config: EngineConfig, model: str, tiers: TierSizes = NO_TIERS) -> None:
        """Start a new run on a model, with these tiers. Logs of earlier runs stay readable."""

    def fork(self, at: int, change: Change, config: EngineConfig) -> None:
        """Start a new run with the current one's first `at` records, then the change."""


class BareLessonEngine:
    """Engines without viewers, one per run of the lesson."""

    def __init__(
        self,
        builder: Callable[[str], BuildEngine],
        config: EngineConfig,
        model: str,
        turns: AbstractContextManager[object] | None = None,
    ) -> None:
        """`builder`: maps a model name to a builder of engines. `turns`: lock shared with other computations."""
        self._builder = builder
        self._turns = turns or nullcontext()
        self._engines: list[EngineLike] = []
        self._later: list[tuple[int, LessonPrompt, SamplingParams]] = []
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
        self._later += [(self._steps + p.after_steps, p, sampling) for p in prompts if p.after_steps]
        self._later.sort(key=lambda later: later[0])
        self._submit_due()

    def prefill(self) -> None:
        while self._engine.prefill_pending():
            with self._turns:
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
            with self._turns:
                record = self._engine.step()
        self._steps += 1
        self._submit_due()
        return True

    def lose(self, instance: int) -> None:
        with self._turns:
            self._engine.lose_instance(instance)

    def restart(self, config: EngineConfig, model: str, tiers: TierSizes = NO_TIERS) -> None:
        self._model = model
        self._engines.append(self._builder(model)(config, None, self._tiers.restart(tiers)))
        self._later, self._steps = [], 0

    def fork(self, at: int, change: Change, config: EngineConfig) -> None:
        source = self._engine.log
        self.restart(config, self._model)
        rerun = self._engine.rerun(source, at, change, follow=False)
        going = True
        while going:
            with self._turns:
                going = rerun.advance()

    def close(self) -> None:
        """Close every engine; their logs are deleted."""
        for engine in self._engines:
            engine.close()
        self._tiers.close()

    @property
    def _engine(self) -> EngineLike:
        return self._engines[-1]

    def _submit_due(self) -> None:
        while self._later and (self._later[0][0] <= self._steps or not self._engine.num_unfinished()):
            _, prompt, sampling = self._later.pop(0)
            self._engine.submit([prompt], sampling)
