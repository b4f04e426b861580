"""A learner's way through a lesson: what has happened to the run, how far it is shown, and what is asked.

The learner stands at a barrier: an action to be carried out, a question to be answered, or the sandbox. What stands
after it has not been sent to the page. For a question the run is played on, out of sight, as far as decides it; its
records are shown when the learner carries out the action.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from app.lessons.allocator.bench import Deed
from app.lessons.allocator.exercise import Exercise, exercise
from app.lessons.allocator.grading import Graded, grade
from app.lessons.figures import figure_of
from app.lessons.lesson import Action, Ask, Do, Item, Lesson, LessonError, Sandbox, Show, Text, Work
from app.lessons.markup import OPEN, Node, said, tree
from app.lessons.numbers import in_digits
from app.lessons.parse import model_of, settings_of
from app.lessons.questions import ask
from app.lessons.questions.rules import Question
from app.lessons.scene import Scene, Undecided, shown
from app.lessons.stage import LessonPrompt, Stage
from app.lessons.told import (
    Moment,
    Progress,
    Told,
    ToldAsk,
    ToldDo,
    ToldList,
    ToldOption,
    ToldSandbox,
    ToldShow,
    ToldText,
    ToldWork,
    told_list,
)
from engine.lab.change import TokenChange
from engine.trace.log import TraceReader

MOST_STEPS = 1024  # that one action takes
MOST_AGAIN = 2  # questions of earlier lessons in one
TRIES = 2  # one where learning is measured


Given = int | list[Deed] | None  # an option, a list of operations; None: not sure


class Answered(Struct, kw_only=True):
    """A learner's answers to one question, or lists for one piece of work, in order."""

    given: list[Given] = []
    over: bool = False


class Course:
    """One way through one lesson, in one language."""

    def __init__(
        self,
        lesson: Lesson,
        language: str,
        stage: Stage,
        changes: Mapping[str, Any] = MappingProxyType({}),
        again: Mapping[str, Ask] = MappingProxyType({}),
    ) -> None:
        """`stage` has begun a run with the lesson's settings, and what the learner changed of them, `changes`.

        `again`: questions of earlier lessons, by what the page calls them. Each is asked once more before the first
        action that decides it, unless the lesson asks by the same rule itself.
        """
        self.lesson = lesson
        self.language = language
        self._stage = stage
        self._items: list[Item] = lesson.items
        self._sections = [i for i, section in enumerate(lesson.sections) for _ in section.items]
        self._logs: list[TraceReader] = [stage.log]
        self._wished = dict(changes)
        self._changes: dict[str, Any] = dict(changes)  # of the present run
        self._submitted: set[int] = set()
        self._performed: dict[int, Moment] = {}  # by item
        self._asked: dict[int, Question] = {}
        self._work: dict[int, Exercise] = {}
        own = {item.rule for item in self._items if isinstance(item, Ask)}
        self._owed = {name: asked for name, asked in again.items() if asked.rule not in own}
        self._again: dict[int, str] = {}  # by item
        self.answers: dict[int, Answered] = {}
        self.at = -1  # the item of the barrier; -1: before the first; as many as there are items: the end
        self.moment = Moment(run=0, records=0)  # as far as it is shown

    # What the learner does

    def go_on(self) -> None:
        """To the next barrier. The action of the present one is carried out and shown.

        Raises:
            LessonError: the lesson does not hold here.
        """
        if self.at >= 0 and (item := self.barrier):
            if isinstance(item, Do):
                self._perform(self.at)
                self.moment = self._performed[self.at]
            elif isinstance(item, Ask | Work) and not self.is_answered:
                raise LessonError(item.line, "the question has no answer yet")
        self.at += 1
        while self.at < len(self._items) and not isinstance(self._items[self.at], Do | Ask | Work | Sandbox):
            self.at += 1
        self._bring_back()
        if isinstance(self.barrier, Ask | Work):
            self._prepare(self.at)

    def answer(self, given: Given) -> bool:
        """Answer the question at the barrier; whether that was right. Two tries; not being sure ends it too.

        Raises:
            LessonError: nothing is asked, or there is no such answer.
        """
        item = self.barrier
        if not isinstance(item, Ask | Work):
            raise LessonError(0, "nothing is asked here")
        answered = self.answers.setdefault(self.at, Answered())
        if answered.over:
            raise LessonError(item.line, "this question has been answered")
        if not self.takes(given):
            raise LessonError(item.line, f"there is no answer {given}")
        answered.given.append(given)
        right = self._graded(self.at, given).right if isinstance(given, list) else given == self._right
        tries = TRIES if self.lesson.kind == "lesson" else 1
        answered.over = right or given is None or len(answered.given) >= tries
        return right

    # What there is

    @property
    def barrier(self) -> Item | None:
        """What the learner stands before; None: the lesson is over."""
        return self._items[self.at] if 0 <= self.at < len(self._items) else None

    @property
    def question(self) -> Question | None:
        """What is asked at the barrier."""
        return self._asked.get(self.at)

    def answer_right(self) -> None:
        """Answer what is asked at the barrier, if anything is, as the run does.

        Raises:
            LessonError: the rules of a learner's work do not give what the engine did.
        """
        if self.question:
            self.answer(self.question.right)
        elif (item := self.barrier) and isinstance(item, Work) and not self.answer(self.engines_list()):
            raise LessonError(item.line, "work: the rules do not give what the engine did")

    def engines_list(self) -> list[Deed]:
        """What the engine did of the work at the barrier."""
        return [done.deed for done in self._work[self.at].deeds]

    def takes(self, given: Given) -> bool:
        """Whether what is asked at the barrier can be answered so."""
        if given is None or isinstance(given, list):
            return given is None or self.at in self._work
        return self.question is not None and 0 <= given < len(self.question.options)

    @property
    def asked(self) -> Mapping[int, Question]:
        """By item, the questions so far: with their answers, so for nobody who has still to give one."""
        return self._asked

    @property
    def logs(self) -> list[TraceReader]:
        """The lesson's runs so far, in full."""
        return self._logs

    @property
    def is_answered(self) -> bool:
        """Whether the question at the barrier has all the answers that it takes."""
        return self.answers.get(self.at, Answered()).over

    @property
    def log(self) -> TraceReader:
        """The run that is shown, in full: also what is not shown yet."""
        return self._logs[self.moment.run]

    def sent(self, since: int = 0) -> list[Told]:
        """The items from `since` up to the barrier, as the page draws them."""
        return [self._told(index) for index in range(since, min(self.at + 1, len(self._items)))]

    @property
    def progress(self) -> Progress:
        count = len(self._items)
        sections = len(self.lesson.sections)
        return Progress(at=self.at, num_items=count, num_sections=sections, over=self.at >= count)

    def scene(self, moment: Moment | None = None) -> Scene:
        """The run as it is shown, at a moment of the lesson (None: now)."""
        moment = moment or self.moment
        log = self._logs[moment.run]
        return Scene(shown(log, moment.records), moment.records, self._logs[moment.run - 1] if moment.run else None)

    def moment_before(self, index: int) -> Moment:
        """How far the run is shown where an item stands."""
        before = [moment for at, moment in self._performed.items() if at < index]
        return before[-1] if before else Moment(run=0, records=0)

    # Inside

    def _told(self, index: int) -> Told:
        item, section = self._items[index], self._sections[index]
        match item:
            case Text():
                blocks = self._linked(tree(item.texts[self.language]), index)
                return ToldText(index=index, section=section, blocks=blocks)
            case Show():
                return ToldShow(index=index, section=section, part=item.part, view=item.view)
            case Do():
                moment = self._performed[index] if index < self.at else None
                return ToldDo(index=index, section=section, action=item.action, moment=moment)
            case Ask():
                return self._told_question(index, section)
            case Work():
                return self._told_work(index, section)
            case Sandbox():
                return ToldSandbox(index=index, section=section)

    def _told_question(self, index: int, section: int) -> ToldAsk:
        question, answered = self._asked[index], self.answers.get(index, Answered())
        given = [option for option in answered.given if not isinstance(option, list)]
        return ToldAsk(
            index=index,
            section=section,
            rule=question.rule,
            values=question.values,
            options=[
                ToldOption(text=o.text, values=o.values, number=o.number, place=o.place) for o in question.options
            ],
            given=given,
            whys=[None if option is None else question.options[option].why for option in given],
            over=answered.over,
            right=question.right if answered.over else None,
            evidence=question.evidence if answered.over else None,
            again=self._again.get(index),
        )

    def _told_work(self, index: int, section: int) -> ToldWork:
        work, answered = self._work[index], self.answers.get(index, Answered())
        return ToldWork(
            index=index,
            section=section,
            tasks=work.tasks,
            records=self.moment_before(index).records,
            given=[self._told_list(index, deeds) if isinstance(deeds, list) else None for deeds in answered.given],
            over=answered.over,
            engine=work.deeds if answered.over else None,
        )

    def _told_list(self, index: int, deeds: list[Deed]) -> ToldList:
        return told_list(deeds, self._graded(index, deeds))

    def _graded(self, index: int, deeds: list[Deed]) -> Graded:
        return grade(self._work[index], self.scene(self.moment_before(index)).state, deeds)

    @property
    def _right(self) -> int | None:
        return self.question.right if self.question else None

    def _linked(self, nodes: list[Node], index: int) -> list[Node]:
        """Each number that leads somewhere, with the record that it is read from."""
        found: list[Node] = []
        for node in nodes:
            if isinstance(node, str):
                found.append(node)
                continue
            linked = {**node, "children": self._linked(node["children"], index)}
            if "figure" in node:
                name, *arguments = node["figure"].split(":")
                try:
                    figure = figure_of(self.scene(self.moment_before(index)), name, arguments)
                    linked["record"] = figure.record
                    if said(node["children"]) == OPEN:
                        linked["children"] = [f"{figure.value:.3g}"]
                    elif self._wished:  # under other settings the sentence has the numbers of this run
                        linked["children"] = [in_digits(figure.value, said(node["children"]))]
                except Undecided:  # said by the check; a reader still reads the sentence
                    linked["record"] = None
            found.append(linked)
        return found

    def _bring_back(self) -> None:
        """Put a question of an earlier lesson before the question or action at the barrier, if the run decides one."""
        item = self.barrier
        is_step = isinstance(item, Do) and item.action.verb not in ("submit", "restart", "fork")
        if not self._owed or len(self._again) >= MOST_AGAIN or not (is_step or isinstance(item, Ask)):
            return
        scene, at = self._played_on(self.at), self.at
        for name, asked in list(self._owed.items()):
            try:
                question = ask(asked.rule, asked.arguments, scene)
            except (Undecided, LookupError):  # it is about what this run does not have
                continue
            del self._owed[name]
            self._items.insert(at, asked)
            self._sections.insert(at, self._sections[at])
            self._performed = {i + (i >= at): moment for i, moment in self._performed.items()}
            self._asked[at], self._again[at] = question, name
            return

    def _prepare(self, index: int) -> None:
        """Make the question or the work of an item, with the run played on as far as decides it."""
        if index in self._asked or index in self._work:
            return
        item = self._items[index]
        assert isinstance(item, Ask | Work)
        scene = self._played_on(index)
        try:
            if isinstance(item, Work):
                self._work[index] = exercise(scene)
            else:
                self._asked[index] = ask(item.rule, item.arguments, scene)
        except Undecided as error:
            of = f"ask: {item.rule}" if isinstance(item, Ask) else "work"
            raise LessonError(item.line, f"{of}: {error}") from None

    def _played_on(self, index: int) -> Scene:
        """The run, played on from an item as far as the next action that computes something."""
        run = self.moment.run
        for later in range(index, len(self._items)):
            coming = self._items[later]
            if not isinstance(coming, Do):
                continue
            if coming.action.verb in ("restart", "fork"):
                break
            self._perform(later)
            if coming.action.verb != "submit":
                break
        log = self._logs[run]
        return Scene(shown(log, len(log)), self.moment.records, self._logs[run - 1] if run else None)

    def _perform(self, index: int) -> None:
        """Carry out the action of an item, unless that was done before."""
        if index in self._performed:
            return
        item = self._items[index]
        assert isinstance(item, Do)
        try:
            self._carry_out(item.action, item.line)
        except LessonError:
            raise
        except ValueError as error:  # ConfigError, RequestError: the engine's own sentence
            raise LessonError(item.line, f"do: {item.action.verb}: {error}") from None
        self._performed[index] = Moment(run=len(self._logs) - 1, records=len(self._stage.log))

    def _carry_out(self, action: Action, line: int) -> None:
        stage = self._stage
        match action.verb:
            case "submit":
                self._submit(action.prompts, action.after)
            case "prefill":
                if not self._submitted:
                    self._submit([], 0)
                stage.prefill()
            case "step":
                for _ in range(action.count):
                    if not stage.step():
                        raise LessonError(line, "step: nothing is left to compute")
            case "run":
                self._run(action, line)
            case "restart":
                self._changes = {**self._wished, **action.changes}
                model = model_of(self.lesson, self._changes)
                stage.restart(settings_of(self.lesson, self._changes)[0], model)
                self._begun()
            case "fork":
                self._fork(action, line)

    def _begun(self) -> None:
        self._logs.append(self._stage.log)
        self._submitted = set()

    def _submit(self, which: list[int], after: int) -> None:
        texts = self.lesson.prompts[self.language]
        wanted = which or [i for i in range(len(texts)) if i not in self._submitted]
        self._submitted |= set(wanted)
        sampling = settings_of(self.lesson, self._changes)[1]
        self._stage.submit([LessonPrompt(text=texts[i], after_steps=after) for i in wanted], sampling)

    def _run(self, action: Action, line: int) -> None:
        if not self._submitted:
            self._submit([], 0)
        log = self._stage.log
        first = len(log)
        for _ in range(MOST_STEPS):
            if self._holds(action, first):
                return
            if not self._stage.step():
                if action.until == "finished":
                    return
                raise LessonError(line, f"run: everything finished, and {action.until} never came")
        raise LessonError(line, f"run: {MOST_STEPS} steps, and still not {action.until}")

    def _holds(self, action: Action, first: int) -> bool:
        log = self._stage.log
        if action.until == "finished":
            return False  # until no step is left
        if action.until == "tokens":
            state = log.state_at(len(log) - 1) if len(log) else None
            made = [len(s.token_ids) - s.num_prompt_tokens for s in state.sequences.values()] if state else []
            return bool(made) and max(made) >= action.count
        return any(op.__struct_config__.tag == action.until for i in range(first, len(log)) for op in log.record(i).ops)

    def _fork(self, action: Action, line: int) -> None:
        """Another next token for the sequence that was computed last."""
        log = self._stage.log
        at = self._outputs_before(line)
        output = log.record(at).outputs[0]
        if action.rank >= len(output.top):
            raise LessonError(line, f"fork: the run kept {len(output.top)} candidates; there is no rank {action.rank}")
        change = TokenChange(seq_id=output.seq_id, token_id=output.top[action.rank].token_id)
        self._stage.fork(at, change, settings_of(self.lesson, self._changes)[0])
        self._begun()
        self._submitted = set(range(len(self.lesson.prompts[self.language])))

    def _outputs_before(self, line: int) -> int:
        log = self._stage.log
        for index in range(len(log) - 1, -1, -1):
            if log.record(index).outputs:
                return index
        raise LessonError(line, "fork: no token has been chosen yet")
