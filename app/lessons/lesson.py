"""Structure of a lesson: a header, and sections of texts, views, actions and questions, in reading order."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

Translated = dict[str, str]  # language -> text
TranslatedList = dict[str, list[str]]
REVIEW = "again"  # id of the lesson that consists of repeated questions
RESERVED = (REVIEW, "tour")  # ids with a special meaning on the page
Kind = Literal["lesson", "before", "after"]  # "before" and "after" are tests without feedback
Verb = Literal["submit", "prefill", "step", "run", "restart", "fork", "race", "lose"]


class LessonError(ValueError):
    """Error in a lesson, in one sentence. `line` is its line, from 1 (0: the whole file)."""

    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(f"line {line}: {sentence}" if line else sentence)
        self.line = line
        self.sentence = sentence


class Action(Struct, frozen=True, kw_only=True):
    """Action on the run.

    `submit`   submit the prompts `prompts` (indices; empty: all not yet submitted), `after` steps from now
    `prefill`  step until every submitted prompt is computed; submit all prompts first if none is submitted
    `step`     run `count` steps
    `run`      step until `until`: "finished", "tokens" (`count` tokens are generated), or an operation's type
    `restart`  begin a run with `changes` of the lesson's settings, sampling, `model` and tiers
               (`app/lessons/tiers.py`)
    `fork`     fork the run and replace the next token by the `rank`-th most probable one (from 0). With `keep`, fork
               at the step that forgot the token at this position (by language), and pin that token
    `lose`     kill instance `count`, which restarts
    `race`     run prompt `prompts[0]` in the lanes of the set `lanes` (`app/lessons/race.py`), beside the run
    """

    verb: Verb
    prompts: list[int] = []
    after: int = 0
    count: int = 1
    until: str = ""
    rank: int = 0
    keep: dict[str, int] = {}
    lanes: str = ""
    changes: dict[str, Any] = {}


class Text(Struct, frozen=True, kw_only=True, tag="text"):
    """Markdown text in each language."""

    line: int
    texts: Translated


class Show(Struct, frozen=True, kw_only=True, tag="show"):
    """Change of the page's view: `part` is shown, with settings as in a link."""

    line: int
    part: str
    view: dict[str, str]


class Do(Struct, frozen=True, kw_only=True, tag="do"):
    """Action performed on the learner's click."""

    line: int
    action: Action


class Ask(Struct, frozen=True, kw_only=True, tag="ask"):
    """Question by one of the rules (`app/lessons/questions`), decided by the run up to the next action."""

    line: int
    rule: str
    arguments: dict[str, str]
    again: str | None = None  # the page's id of a question that is repeated on its own lesson's run


class Work(Struct, frozen=True, kw_only=True, tag="work"):
    """Exercise: perform the block manager's operations up to the next action (`app/lessons/allocator`), or, if `mends`,
    reorder the parts of the lesson's prompts (`app/lessons/prompt_order.py`).
    """

    line: int
    mends: bool = False


class Sandbox(Struct, frozen=True, kw_only=True, tag="sandbox"):
    """Point from which the learner controls the run."""

    line: int


Item = Text | Show | Do | Ask | Work | Sandbox


class Section(Struct, frozen=True, kw_only=True):
    """Section of a lesson, with one idea."""

    name: str
    line: int
    items: list[Item]
    optional: bool = False  # the lesson is complete without it


class Lesson(Struct, frozen=True, kw_only=True):
    """Parsed lesson file."""

    id: str
    path: Path
    kind: Kind
    number: int
    minutes: int
    model: str
    languages: list[str]
    title: Translated
    prompts: TranslatedList
    config: dict[str, Any]
    sampling: dict[str, Any]
    sections: list[Section]
    movable: TranslatedList = {}  # parts of the prompts that a learner may move

    @property
    def wants_roofs(self) -> bool:
        """Whether it needs this machine's peak rates, which are measured before the run begins."""
        return any(isinstance(item, Ask) and item.rule == "ridge" for item in self.items)

    @property
    def models(self) -> list[str]:
        """Models of its runs, that of the header first. Models of races are chosen by the server and not included."""
        changed = [item.action.changes.get("model") for item in self.items if isinstance(item, Do)]
        return list(dict.fromkeys([self.model, *(name for name in changed if name)]))

    @property
    def num_optional(self) -> int:
        """Number of optional sections at the end."""
        return sum(section.optional for section in self.sections)

    @property
    def items(self) -> list[Item]:
        """All items in order."""
        return [item for section in self.sections for item in section.items]
