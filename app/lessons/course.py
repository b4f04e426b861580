"""Learner's progress through a lesson: the lesson's runs, their visible part, and the open question.

The learner is at a checkpoint: an action to perform, a question to answer, or the sandbox. Later items are not sent to
the page. Before a question is asked, the run is advanced until it decides the answer. The new records are hidden until
the learner performs the next action.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from app.lessons.allocator.block_manager import BlockMove
from app.lessons.allocator.exercise import Exercise, exercise
from app.lessons.allocator.grading import Graded, grade
from app.lessons.answers import Moment, Progress
from app.lessons.lesson import Ask, Do, Item, Lesson, LessonError, Sandbox, Work
from app.lessons.lesson_engine import LessonEngine
from app.lessons.prompt_order import (
    Mended,
    Mending,
    Move,
    TurnRun,
    apply_moves,
    is_right,
    line_tokens,
    moves_error,
    session_to_mend,
    solve,
    turns_of,
)
from app.lessons.questions import ask
from app.lessons.questions.rules import Question
from app.lessons.runs import Runs
from app.lessons.scene import Scene, Undecided, visible_log
from engine.trace.log import TraceReader

NO_STEP = ("restart", "fork", "race")  # actions that compute nothing in the current run
MAX_REPEATED = 2  # repeated questions of earlier lessons
TRIES = 2  # per question; 1 in tests


LearnerAnswer = int | list[BlockMove] | Mending | None  # an option, a list of operations or of moves; None: not sure


class AnswerRecord(Struct, kw_only=True):
    """A learner's answers to a question or an exercise, in order."""

    given: list[LearnerAnswer] = []
    over: bool = False


class Course:
    """A learner's progress through a lesson, in one language."""

    def __init__(
        self,
        lesson: Lesson,
        language: str,
        engine: LessonEngine,
        changes: Mapping[str, Any] = MappingProxyType({}),
        again: Mapping[str, Ask] = MappingProxyType({}),
    ) -> None:
        """Start the course. `engine` runs with the lesson's settings and the learner's `changes`.

        `again`: questions of earlier lessons, by the page's id. Each is repeated before the first action that decides
        it, unless the lesson has a question of the same rule.
        """
        self.lesson = lesson
        self.language = language
        self.changes = dict(changes)
        self._runs = Runs(lesson, language, engine, changes)
        self._items: list[Item] = lesson.items
        self._sections = [i for i, section in enumerate(lesson.sections) for _ in section.items]
        self._performed: dict[int, Moment] = {}  # by item
        self._questions: dict[int, Question] = {}
        self._work: dict[int, Exercise] = {}
        self._sessions: dict[int, list[TurnRun]] = {}  # session to mend, by item
        self._mended: dict[int, list[Mended]] = {}  # attempts with their runs, by item; the solution is last
        own = {item.rule for item in self._items if isinstance(item, Ask)}
        self._pending_review = {name: repeated for name, repeated in again.items() if repeated.rule not in own}
        self._repeated: dict[int, str] = {}  # by item
        self.answers: dict[int, AnswerRecord] = {}
        self.at = -1  # item of the checkpoint; -1 at the beginning, the number of items at the end
        self.moment = Moment(run=0, records=0)  # visible part of the run

    # Actions of the learner

    def advance(self) -> None:
        """Perform the action of the current checkpoint, and go to the next one.

        Raises:
            LessonError: the lesson has an error; the checkpoint is unchanged.
        """
        previous = self.at
        try:
            self._advance()
        except Exception:
            self.at = previous
            raise

    def _advance(self) -> None:
        if self.at >= 0 and (item := self.checkpoint):
            if isinstance(item, Do):
                self._perform(self.at)
                self.moment = self._performed[self.at]
            elif isinstance(item, Ask | Work) and not self.is_answered:
                raise LessonError(item.line, "the question is not answered yet")
        self.at += 1
        while self.at < len(self._items) and not isinstance(self._items[self.at], Do | Ask | Work | Sandbox):
            self.at += 1
        self._insert_repeated_question()
        if isinstance(self.checkpoint, Ask | Work):
            self._prepare(self.at)

    def answer(self, given: LearnerAnswer) -> bool:
        """Answer the question at the checkpoint. Returns whether the answer is right.

        The question is closed by a right answer, the last try, or "not sure".

        Raises:
            LessonError: there is no open question or no such answer, or the mended session cannot be run; the
                checkpoint is unchanged.
        """
        item = self.checkpoint
        if not isinstance(item, Ask | Work):
            raise LessonError(0, "the current item is no question")
        answered = self.answers.get(self.at, AnswerRecord())
        if answered.over:
            raise LessonError(item.line, "this question is already answered")
        if why := self.refusal(given):
            raise LessonError(item.line, why)
        tries = TRIES if self.lesson.kind == "lesson" else 1
        is_last = given is None or len(answered.given) + 1 >= tries
        if self.at in self._sessions:
            right = self._mend([given.moves] if isinstance(given, Mending) else [], is_last)
        elif isinstance(given, list):
            right = self.graded(self.at, given).right
        else:
            right = given is not None and given == self._right
        self.answers[self.at] = AnswerRecord(given=[*answered.given, given], over=right or is_last)
        return right

    # State

    @property
    def checkpoint(self) -> Item | None:
        """Item of the checkpoint; None when the lesson is over."""
        return self._items[self.at] if 0 <= self.at < len(self._items) else None

    @property
    def question(self) -> Question | None:
        """Question at the checkpoint."""
        return self._questions.get(self.at)

    def answer_right(self) -> None:
        """Answer the question at the checkpoint, if there is one, correctly.

        Raises:
            LessonError: the rules of an exercise do not give the engine's operations.
        """
        if self.question:
            self.answer(self.question.right)
        elif (item := self.checkpoint) and isinstance(item, Work):
            given = Mending(moves=self.right_moves()) if item.mends else self.engine_moves()
            if not self.answer(given):
                raise LessonError(item.line, "work: the rules do not give the engine's operations")

    def right_moves(self) -> list[Move]:
        """Return the moves that mend the session at the checkpoint."""
        return solve(self._sessions[self.at], self.lesson.movable[self.language])

    def engine_moves(self) -> list[BlockMove]:
        """Return the engine's operations for the exercise at the checkpoint."""
        return [done.move for done in self._work[self.at].moves]

    def refusal(self, given: LearnerAnswer) -> str | None:
        """Return one sentence that says why an answer is invalid for the question at the checkpoint; None if it is
        valid.
        """
        if isinstance(given, Mending):
            session = self._sessions.get(self.at)
            known = self.lesson.movable.get(self.language, [])
            return moves_error(session, known, given.moves) if session else "there is no session to mend here"
        if isinstance(given, list):
            return None if self.at in self._work else "this question does not take a list of operations"
        is_option = given is None or (self.question is not None and 0 <= given < len(self.question.options))
        return None if is_option else f"there is no answer {given}"

    @property
    def questions(self) -> Mapping[int, Question]:
        """Questions so far, by item, including the right answers. Must not be sent before they are answered."""
        return self._questions

    @property
    def works(self) -> Mapping[int, Exercise]:
        """Exercises so far, by item, including solutions."""
        return self._work

    @property
    def sessions(self) -> Mapping[int, list[TurnRun]]:
        """Original runs of the sessions to mend so far, by item."""
        return self._sessions

    def line_tokens(self, index: int) -> dict[str, list[int]]:
        """Return the token ids of each line of a session to mend."""
        scene = self.scene(self.moment_before(index))
        return line_tokens(scene.log, scene.now)

    def mended(self, index: int) -> list[Mended]:
        """Return the attempts at an item's session with their runs, of which the last is visible."""
        return self._mended.get(index, [])

    @property
    def repeated_questions(self) -> Mapping[int, str]:
        """The page's ids of repeated questions of earlier lessons, by item."""
        return self._repeated

    @property
    def logs(self) -> list[TraceReader]:
        """Complete logs of the lesson's runs so far."""
        return self._runs.logs

    @property
    def is_answered(self) -> bool:
        """Whether the question at the checkpoint is closed."""
        return self.answers.get(self.at, AnswerRecord()).over

    @property
    def log(self) -> TraceReader:
        """Complete log of the current run, including hidden records."""
        return self.logs[self.moment.run]

    def items(self, since: int = 0) -> list[tuple[int, Item, int]]:
        """Return index, item and section of the items from `since` up to the checkpoint."""
        end = min(self.at + 1, len(self._items))
        return [(index, self._items[index], self._sections[index]) for index in range(since, end)]

    @property
    def progress(self) -> Progress:
        count = len(self._items)
        open_answer = AnswerRecord()
        asks = {
            item.rule
            for index, item in enumerate(self._items)
            if isinstance(item, Ask) and index >= self.at and not self.answers.get(index, open_answer).over
        }
        return Progress(
            at=self.at,
            num_items=count,
            num_sections=len(self.lesson.sections),
            over=self.at >= count,
            num_optional=self.lesson.num_optional,
            asks=sorted(asks),
        )

    def scene(self, moment: Moment | None = None) -> Scene:
        """Return the visible part of the run at a moment of the lesson (None: now)."""
        moment = moment or self.moment
        log = self.logs[moment.run]
        earlier = self.logs[moment.run - 1] if moment.run else None
        return Scene(visible_log(log, moment.records), moment.records, earlier)

    def moment_before(self, index: int) -> Moment:
        """Return the visible part of the run before an item."""
        before = [moment for at, moment in self._performed.items() if at < index]
        return before[-1] if before else Moment(run=0, records=0)

    def moment_after(self, index: int) -> Moment | None:
        """Return the visible part of the run after an action, or None if it is not performed yet."""
        return self._performed[index] if index < self.at or index in self._mended else None

    def graded(self, index: int, moves: list[BlockMove]) -> Graded:
        """Grade a learner's list of operations for the exercise at an item."""
        return grade(self._work[index], self.scene(self.moment_before(index)).state, moves)

    # Internal

    @property
    def _right(self) -> int | None:
        return self.question.right if self.question else None

    def _insert_repeated_question(self) -> None:
        """Insert a question of an earlier lesson before the checkpoint, if the run decides one."""
        item = self.checkpoint
        is_step = isinstance(item, Do) and item.action.verb not in ("submit", *NO_STEP)
        if not self._pending_review or len(self._repeated) >= MAX_REPEATED or not (is_step or isinstance(item, Ask)):
            return
        if any(isinstance(done := self._items[i], Do) and done.action.verb == "race" for i in self._performed):
            return  # the lanes of a race would reveal the answer
        scene, at = self._advance_to_decision(self.at), self.at
        for name, repeated in list(self._pending_review.items()):
            try:
                question = ask(repeated.rule, repeated.arguments, scene)
            except (Undecided, LookupError):  # not applicable to this run
                continue
            del self._pending_review[name]
            self._items.insert(at, repeated)
            self._sections.insert(at, self._sections[at])
            self._performed = {i + (i >= at): moment for i, moment in self._performed.items()}
            self._questions[at], self._repeated[at] = question, name
            return

    def _prepare(self, index: int) -> None:
        """Create the question or exercise of an item, and advance the run until the answer is decided."""
        if index in self._questions or index in self._work or index in self._sessions:
            return
        item = self._items[index]
        assert isinstance(item, Ask | Work)
        mends = isinstance(item, Work) and item.mends
        scene = self.scene() if mends else self._advance_to_decision(index)
        try:
            if mends:
                self._sessions[index] = session_to_mend(scene)
            elif isinstance(item, Work):
                self._work[index] = exercise(scene)
            else:
                self._questions[index] = ask(item.rule, item.arguments, scene)
        except Undecided as error:
            of = f"ask: {item.rule}" if isinstance(item, Ask) else "work"
            raise LessonError(item.line, f"{of}: {error}") from None

    def _advance_to_decision(self, index: int) -> Scene:
        """Perform the actions from an item on, up to the first one that computes something."""
        run = self.moment.run
        for later in range(index, len(self._items)):
            coming = self._items[later]
            if isinstance(coming, Work) and coming.mends:
                break
            if not isinstance(coming, Do):
                continue
            if coming.action.verb in NO_STEP:
                break
            self._perform(later)
            if coming.action.verb not in ("submit", "lose"):  # these compute nothing
                break
        log = self.logs[run]
        return Scene(visible_log(log, len(log)), self.moment.records, self.logs[run - 1] if run else None)

    def _mend(self, given: list[list[Move]], is_last: bool) -> bool:
        """Run the session at the checkpoint with moves applied. If the last try is wrong, run the solution too.

        The last run becomes visible. Returns whether the given moves are right.
        """
        at, line, previous = self.at, self._items[self.at].line, len(self.logs)
        shown = (self.mended(at) or [Mended(moves=[], turns=self._sessions[at], right=False)])[-1]
        try:
            runs = [self._mended_by(moves, line) for moves in given]
            right = any(run.right for run in runs)
            if is_last and not right:
                runs.append(self._mended_by(self.right_moves(), line))
        except Exception:
            with suppress(LessonError):  # report the first error instead
                self._runs.restore(previous, _texts([turn.lines for turn in shown.turns]), line)
            raise
        self._mended[at] = [*self.mended(at), *runs]
        self._performed[at] = self.moment = Moment(run=len(self.logs) - 1, records=len(self.logs[-1]))
        return right

    def _mended_by(self, moves: list[Move], line: int) -> Mended:
        """Run the session at the checkpoint with moves applied."""
        log = self._runs.run_prompts(_texts(apply_moves([turn.lines for turn in self._sessions[self.at]], moves)), line)
        turns = turns_of(log, len(log))
        return Mended(moves=moves, turns=turns, right=is_right(turns, self.scene().block_size))

    def _perform(self, index: int) -> None:
        """Perform the action of an item, unless it has been performed."""
        if index in self._performed:
            return
        item = self._items[index]
        assert isinstance(item, Do)
        try:
            self._runs.perform(item.action, item.line)
        except LessonError:
            raise
        except ValueError as error:  # ConfigError, RequestError
            raise LessonError(item.line, f"do: {item.action.verb}: {error}") from None
        self._performed[index] = Moment(run=len(self.logs) - 1, records=len(self.logs[-1]))


def _texts(prompts: list[list[str]]) -> list[str]:
    return ["\n".join(lines) for lines in prompts]
