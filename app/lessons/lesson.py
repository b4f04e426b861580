"""Structure of a lesson: a header, and sections of texts, views, actions and questions, in the order of reading."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

Translated = dict[str, str]  # language -> text
TranslatedList = dict[str, list[str]]
REVIEW = "again"  # the id under which the page opens questions once more
RESERVED = (REVIEW, "tour")  # what the page calls something else than a lesson
Kind = Literal["lesson", "before", "after"]  # the last two: questions without a word about the answers
Verb = Literal["submit", "prefill", "step", "run", "restart", "fork", "race", "lose"]


class LessonError(ValueError):
    """A lesson that does not hold, in one sentence; `line` is where, from 1 (0: the file as a whole)."""

    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(f"line {line}: {sentence}" if line else sentence)
        self.line = line
        self.sentence = sentence


class Action(Struct, frozen=True, kw_only=True):
    """Event of the run.

    `submit`   the prompts `prompts` (numbers from 0; empty: all that were not submitted yet), `after` steps from now
    `prefill`  steps until every submitted prompt is computed; submits all prompts where none was
    `step`     `count` steps
    `run`      steps until `until` holds: "finished", "tokens" (`count` tokens were generated), or an operation's type
    `restart`  a new run with `changes` of the lesson's settings, sampling, `model` and tiers (`app/lessons/tiers.py`)
    `fork`     a new run, the same up to now, whose next token is the `rank`-th likeliest (0 the likeliest); with `keep`
               the same up to the step that forgot the token at this position (by language), which stays from there on
    `lose`     instance `count` ends, as if its process were killed, and restarts
    `race`     prompt `prompts[0]` in the lanes of the set `lanes` (`app/lessons/race.py`), beside the run
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
    """Where to look from here on: `part` of the page, and settings as a link holds them."""

    line: int
    part: str
    view: dict[str, str]


class Do(Struct, frozen=True, kw_only=True, tag="do"):
    """Action on the learner's click."""

    line: int
    action: Action


class Ask(Struct, frozen=True, kw_only=True, tag="ask"):
    """A question by one of the rules (`app/lessons/questions`). It is decided by the run as far as the next action."""

    line: int
    rule: str
    arguments: dict[str, str]
    again: str | None = None  # the page's name for it, where it is repeated on its lesson's own run


class Work(Struct, frozen=True, kw_only=True, tag="work"):
    """The learner does the block manager's work (`app/lessons/allocator`) as far as the next action; or mends the
    session that the lesson's prompts are (`app/lessons/prompt_order.py`)."""

    line: int
    mends: bool = False


class Sandbox(Struct, frozen=True, kw_only=True, tag="sandbox"):
    """From here on the run is the learner's."""

    line: int


Item = Text | Show | Do | Ask | Work | Sandbox


class Section(Struct, frozen=True, kw_only=True):
    """Section of a lesson: one idea, read at once."""

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
        """Whether it speaks of what this machine can do, which is measured before the run begins."""
        return any(isinstance(item, Ask) and item.rule == "ridge" for item in self.items)

    @property
    def models(self) -> list[str]:
        """Those that its runs are on, the header's first; a race's lanes have theirs from the server."""
        changed = [item.action.changes.get("model") for item in self.items if isinstance(item, Do)]
        return list(dict.fromkeys([self.model, *(name for name in changed if name)]))

    @property
    def num_optional(self) -> int:
        """Number of optional sections at its end."""
        return sum(section.optional for section in self.sections)

    @property
    def items(self) -> list[Item]:
        """All of them, in order."""
        return [item for section in self.sections for item in section.items]
