"""Consecutive runs of a lesson, and the execution of actions on the current one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.lessons.lesson import Action, Lesson, LessonError
from app.lessons.lesson_engine import LessonEngine, LessonPrompt
from app.lessons.parse import model_of, settings_of
from app.lessons.tiers import tiers_of
from engine.lab.change import Change, KeepChange, TokenChange
from engine.trace.log import TraceReader
from engine.trace.operations import Forget

MAX_STEPS = 1024  # per action


class Runs:
    """Runs of a course."""

    def __init__(self, lesson: Lesson, language: str, engine: LessonEngine, changes: Mapping[str, Any]) -> None:
        """`engine`: has already started the first run, with the lesson's settings and the learner's `changes`."""
        self.logs: list[TraceReader] = [engine.log]
        self._lesson, self._language, self._engine = lesson, language, engine
        self._learner_changes = dict(changes)
        self._changes: dict[str, Any] = dict(changes)  # of the current run
        self._submitted: set[int] = set()

    def perform(self, action: Action, line: int) -> None:
        """Perform an action. `line`: its line in the file.

        Raises:
            LessonError: the action is impossible at this point.
            ValueError: the engine rejects it.
        """
        engine = self._engine
        match action.verb:
            case "submit":
                self._submit(action.prompts, action.after)
            case "prefill":
                if not self._submitted:
                    self._submit([], 0)
                engine.prefill()
            case "step":
                for _ in range(action.count):
                    if not engine.step():
                        raise LessonError(line, "step: nothing is left to compute")
            case "run":
                self._run(action, line)
            case "restart":
                self._changes = {**self._learner_changes, **action.changes}
                model = model_of(self._lesson, self._changes)
                config = settings_of(self._lesson, self._changes)[0]
                try:
                    engine.restart(config, model, tiers_of(action.changes))
                except OSError as error:
                    raise LessonError(line, f"restart: the folder for blocks cannot be used: {error}") from error
                self._add_log()
            case "fork":
                self._fork(action, line)
            case "lose":
                engine.lose_instance(action.count)
            case "race":
                pass  # run by the page

    def run_prompts(self, texts: list[str], line: int) -> TraceReader:
        """Start a new run with the current settings, and run the prompts one after another.

        Raises:
            LessonError: the run cannot be completed.
        """
        config, sampling = settings_of(self._lesson, self._changes)
        try:
            self._engine.restart(config, model_of(self._lesson, self._changes))
            self._add_log()
            steps = 0
            for text in texts:
                self._engine.submit([LessonPrompt(text=text)], sampling)
                while self._engine.step():
                    steps += 1
                    if steps > MAX_STEPS:
                        raise LessonError(line, f"work: mend: not finished after {MAX_STEPS} steps")
        except LessonError:
            raise
        except ValueError as error:
            raise LessonError(line, f"work: mend: {error}") from None
        return self._engine.log

    def restore(self, count: int, texts: list[str], line: int) -> None:
        """Drop the runs after the first `count`, and make the last of these, with the prompts `texts`, current again.

        It is rerun if it is no longer the engine's current run.

        Raises:
            LessonError: the run cannot be rerun; its old log remains.
        """
        if self._engine.log is self.logs[count - 1]:
            return
        try:
            again = self.run_prompts(texts, line)
        finally:
            del self.logs[count:]
        if len(again) == len(self.logs[-1]):
            self.logs[-1] = again

    def _add_log(self) -> None:
        self.logs.append(self._engine.log)
        self._submitted = set()

    def _submit(self, which: list[int], after: int) -> None:
        texts = self._lesson.prompts[self._language]
        wanted = which or [i for i in range(len(texts)) if i not in self._submitted]
        self._submitted |= set(wanted)
        sampling = settings_of(self._lesson, self._changes)[1]
        self._engine.submit([LessonPrompt(text=texts[i], after_steps=after) for i in wanted], sampling)

    def _run(self, action: Action, line: int) -> None:
        if not self._submitted:
            self._submit([], 0)
        log = self._engine.log
        first = len(log)
        for _ in range(MAX_STEPS):
            if self._is_reached(action, first):
                return
            if not self._engine.step():
                if action.until == "finished":
                    return
                raise LessonError(line, f"run: all sequences finished before {action.until} occurred")
        raise LessonError(line, f"run: {action.until} did not occur within {MAX_STEPS} steps")

    def _is_reached(self, action: Action, first: int) -> bool:
        log = self._engine.log
        if action.until == "finished":
            return False  # run until no step is left
        if action.until == "tokens":
            state = log.state_at(len(log) - 1) if len(log) else None
            generated = [len(s.token_ids) - s.num_prompt_tokens for s in state.sequences.values()] if state else []
            return bool(generated) and max(generated) >= action.count
        return any(op.__struct_config__.tag == action.until for i in range(first, len(log)) for op in log.record(i).ops)

    def _fork(self, action: Action, line: int) -> None:
        at, change = self._keep_change(action, line) if action.keep else self._token_change(action, line)
        self._engine.fork(at, change, settings_of(self._lesson, self._changes)[0])
        self._add_log()
        self._submitted = set(range(len(self._lesson.prompts[self._language])))

    def _token_change(self, action: Action, line: int) -> tuple[int, Change]:
        """Return a change of the last sampled token."""
        log = self._engine.log
        at = self._outputs_before(line)
        output = log.record(at).outputs[0]
        if action.rank >= len(output.top):
            raise LessonError(line, f"fork: rank {action.rank} is not among the {len(output.top)} recorded candidates")
        return at, TokenChange(seq_id=output.seq_id, token_id=output.top[action.rank].token_id)

    def _keep_change(self, action: Action, line: int) -> tuple[int, Change]:
        """Return a change that pins the token at a position, before the step in which a head first forgot it."""
        log, position = self._engine.log, action.keep[self._language]
        for index in range(len(log)):
            for op in log.record(index).ops:
                if isinstance(op, Forget) and any(position in own for own in op.positions):
                    return index, KeepChange(seq_id=op.seq_id, position=position)
        raise LessonError(line, f"fork: no head has forgotten the token at position {position}")

    def _outputs_before(self, line: int) -> int:
        log = self._engine.log
        for index in range(len(log) - 1, -1, -1):
            if log.record(index).outputs:
                return index
        raise LessonError(line, "fork: no token has been sampled yet")
