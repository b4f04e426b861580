"""Structure of a lesson: a header, and sections of texts, views, actions and questions, in reading order."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

Translated = dict[str, str]  # language -> text
TranslatedList = dict[str, list[str]]
REVIEW = "again"  # lesson id of repeated questions
RESERVED = (REVIEW, "tour")  # ids that the page uses otherwise
Kind = Literal["lesson", "before", "after"]  # the last two are tests without feedback
Verb = Literal["submit", "prefill", "step", "run", "restart", "fork", "race", "lose"]


class LessonError(ValueError):
    """The lesson is wrong; one sentence. `line` is its line from 1 (0: the whole file)."""

    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(f"line {line}: {sentence}" if line else sentence)
        self.line = line
        self.sentence = sentence


class Action(Struct, frozen=True, kw_only=True):
    """Event of the run.

    `submit`   the prompts `prompts` (indices; empty: all not yet submitted), `after` steps from now
    `prefill`  steps until every submitted prompt is computed; submits all prompts if none is
    `step`     `count` steps
    `run`      steps until `until`: "finished", "tokens" (`count` tokens are generated), or an operation's type
    `restart`  a new run with `changes` of the lesson's settings, sampling, `model` and tiers (`app/lessons/tiers.py`)
    `fork`     a new run, the same up to now, whose next token is the `rank`-th most probable (from 0); with `keep`
               the same up to the step that forgot the token at this position (by language), which is then pinned
    `lose`     instance `count` ends, as if its process were killed, and restarts
    `race`     prompt `prompts[0]` in the lanes of the set `lanes` (`app/lessons/race.py`), in addition to the run
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
    """Markdown, in each language."""

    line: int
    texts: Translated


class Show(Struct, frozen=True, kw_only=True, tag="show"):
    """View from here on: `part` of the page, and settings as in a link."""

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
    again: str | None = None  # the page's name for it, if repeated on its own lesson's run


class Work(Struct, frozen=True, kw_only=True, tag="work"):
    """Exercise: the block manager's operations (`app/lessons/allocator`) up to the next action; or mending the session
    of the lesson's prompts (`app/lessons/prompt_order.py`)."""

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
    """Lesson."""

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
        """Whether it needs this machine's roofs, which are measured before the run begins."""
        return any(isinstance(item, Ask) and item.rule == "ridge" for item in self.items)

    @property
    def models(self) -> list[str]:
        """Models of its runs, the header's first; without those of a race, which the server chooses."""
        changed = [item.action.changes.get("model") for item in self.items if isinstance(item, Do)]
        return list(dict.fromkeys([self.model, *(name for name in changed if name)]))

    @property
    def num_optional(self) -> int:
        """Number of optional sections at its end."""
        return sum(section.optional for section in self.sections)

    @property
    def items(self) -> list[Item]:
        """All items in order."""
        return [item for section in self.sections for item in section.items]
