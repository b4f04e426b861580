"""Parser of lesson files. It reports errors with their line, and runs nothing.

+++
id = "written-a-step-later"
number = 2
minutes = 5
title = { en = "The token that is not there yet", zh = "还不在那里的字" }
prompts = { en = ["I met a traveller"], zh = ["春江潮水连海平，"] }
config = { block_size = 4, num_blocks = 48 }
sampling = { max_tokens = 8 }
+++

## start

::: en
Here is a prompt, and nothing has been computed yet.
:::

::: zh
提示词摆在这里，什么都还没算。
:::

do: prefill
show: stage
ask: keys_read
"""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any, get_args

import msgspec

from app.lessons.lesson import (
    RESERVED,
    Action,
    Ask,
    Do,
    Item,
    Kind,
    Lesson,
    LessonError,
    Sandbox,
    Section,
    Show,
    Text,
    Verb,
    Work,
)
from app.lessons.markup import check_markup
from app.lessons.prompt_order import name_of
from app.lessons.questions import check_arguments
from app.lessons.tiers import TIERS, tiers_of
from app.page.words import languages
from engine.config import EngineConfig, SamplingParams
from engine.options.toml_text import toml_tables
from engine.trace.operations import Op

PARTS = ("stage", "pool", "attention", "scheduler", "requests", "time", "museum", "compare", "forgetting")
VIEW = ("layer", "head", "seq", "step", "sub", "chart", "overview", "answer", "exhibit", "telling", "select")
LANES = ("strategies", "caches", "models")  # sets of lanes of a race
OPERATIONS = {op.__struct_config__.tag for op in get_args(Op)}
OPTIONAL = "optional"  # suffix of a section's name
MODEL = "model"  # key in the changes of a restart that is not a setting
MAX_BYTES = 256 * 1024  # of a file
_HEADING = re.compile(r"##\s+(.*)")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_DIRECTIVE = re.compile(r"(\w+):(.*)")


class _Header(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    id: str
    kind: Kind = "lesson"
    number: int = 0
    minutes: int
    model: str = "bundled"
    title: dict[str, str]
    prompts: dict[str, list[str]]
    config: dict[str, Any] = {}
    sampling: dict[str, Any] = {}
    movable: dict[str, list[str]] = {}


def read_lesson(path: Path) -> Lesson:
    """Read the lesson in a file.

    Raises:
        LessonError: the first error.
        OSError: the file cannot be read.
    """
    data = path.read_bytes()
    if len(data) > MAX_BYTES:
        raise LessonError(0, f"the file has {len(data)} bytes; a lesson has at most {MAX_BYTES}")
    try:
        return parse_lesson(data.decode("utf-8"), path)
    except UnicodeDecodeError:
        raise LessonError(0, "the file is not UTF-8 text") from None


def parse_lesson(text: str, path: Path) -> Lesson:
    """Parse the text of a lesson. Raises LessonError for the first error."""
    lines = text.splitlines()
    header, first = _header(lines)
    found = sorted(header.title)
    if unknown := set(found) - set(languages()):
        raise LessonError(1, f"title: the page has no language {min(unknown)!r}; it has {', '.join(languages())}")
    if not _NAME.fullmatch(header.id):
        raise LessonError(1, f"id: {header.id!r} must consist of lowercase letters, digits and hyphens")
    if header.id in RESERVED:
        raise LessonError(1, f"id: {header.id!r} is reserved by the page; choose another id")
    lesson = Lesson(
        id=header.id,
        path=path,
        kind=header.kind,
        number=header.number,
        minutes=header.minutes,
        model=header.model,
        languages=found,
        title=header.title,
        prompts=header.prompts,
        config=header.config,
        sampling=header.sampling,
        sections=_Body(lines, first, found).sections(),
        movable=header.movable,
    )
    _check_whole(lesson)
    return lesson


def _header(lines: list[str]) -> tuple[_Header, int]:
    """Return the header, and the index of the line after it."""
    if not lines or lines[0].strip() != "+++":
        raise LessonError(1, "a lesson must begin with a TOML header between two lines of +++")
    end = next((i for i, line in enumerate(lines[1:], 1) if line.strip() == "+++"), None)
    if end is None:
        raise LessonError(1, "the header has no end: a second line of +++ is missing")
    try:
        return msgspec.convert(toml_tables("\n".join([*lines[1:end], ""])), _Header), end + 1
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"line (\d+)", str(error))
        raise LessonError(1 + int(place[1]) if place else 1, f"the header is not valid TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise LessonError(1, f"the header: {error}") from None


class _Body:
    """Reads sections line by line."""

    def __init__(self, lines: list[str], first: int, found: list[str]) -> None:
        self._lines, self._at, self._languages = lines, first, found

    def sections(self) -> list[Section]:
        sections: list[Section] = []
        texts: dict[str, str] = {}
        text_line = 0

        def end_text() -> None:
            nonlocal texts
            if not texts:
                return
            if missing := [code for code in self._languages if code not in texts]:
                raise LessonError(text_line, f"this text is missing in language {missing[0]!r}")
            sections[-1].items.append(Text(line=text_line, texts=texts))
            texts = {}

        while self._at < len(self._lines):
            line, number = self._lines[self._at].strip(), self._at + 1
            self._at += 1
            if not line:
                continue
            if heading := _HEADING.fullmatch(line):
                if sections:
                    end_text()
                name, _, mark = heading[1].partition(" ")
                if not _NAME.fullmatch(name) or mark not in ("", OPTIONAL):
                    raise LessonError(
                        number,
                        f"{heading[1]!r} is not a section's name of lowercase letters and hyphens, or name {OPTIONAL}",
                    )
                if sections and sections[-1].optional and not mark:
                    raise LessonError(number, f"{name}: only {OPTIONAL} sections may follow an {OPTIONAL} one")
                sections.append(Section(name=name, line=number, items=[], optional=bool(mark)))
                continue
            if not sections:
                raise LessonError(number, "a section must begin before this line: ## and its name")
            if line.startswith(":::"):
                code = line[3:].strip()
                if code in texts:
                    end_text()
                text_line = text_line if texts else number
                texts[code] = self._text(code, number)
                continue
            end_text()
            sections[-1].items.append(_directive(line, number))
        if sections:
            end_text()
        return sections

    def _text(self, code: str, number: int) -> str:
        if code not in self._languages:
            raise LessonError(number, f"::: {code}: the title is not in this language ({', '.join(self._languages)})")
        start = self._at
        while self._at < len(self._lines):
            self._at += 1
            if self._lines[self._at - 1].strip() == ":::":
                text = "\n".join(self._lines[start : self._at - 1]).strip()
                check_markup(text, start + 1)
                return text
        raise LessonError(number, f"::: {code} has no end: a line of ::: is missing")


def _directive(line: str, number: int) -> Item:
    found = _DIRECTIVE.fullmatch(line)
    if not found or found[1] not in ("do", "show", "ask", "work", "sandbox"):
        raise LessonError(
            number, f"{line[:40]!r} is neither a text between ::: lines nor do:, show:, ask:, work: or sandbox:"
        )
    try:
        words = shlex.split(found[2])
    except ValueError as error:
        raise LessonError(number, f"{line[:40]!r}: {error}") from None
    if found[1] in ("sandbox", "work"):
        if words and (found[1], words) != ("work", ["mend"]):
            raise LessonError(number, f"{found[1]}: takes no argument" + " other than mend" * (found[1] == "work"))
        return Sandbox(line=number) if found[1] == "sandbox" else Work(line=number, mends=bool(words))
    if not words:
        raise LessonError(number, f"{found[1]}: is empty")
    plain = [word for word in words[1:] if "=" not in word]
    named = dict(word.split("=", 1) for word in words[1:] if "=" in word)
    if found[1] == "do":
        return Do(line=number, action=_action(words[0], plain, named, number))
    if plain:
        raise LessonError(number, f"{found[1]}: {plain[0]!r} must be written as name=value")
    if found[1] == "show":
        if words[0] == "race":
            raise LessonError(number, "show: a race is shown by do: race, so that no question can follow it")
        if words[0] not in PARTS:
            raise LessonError(number, f"show: there is no {words[0]!r}; the page has {', '.join(PARTS)}")
        if unknown := named.keys() - set(VIEW):
            raise LessonError(number, f"show: a view has no {min(unknown)!r}; it has {', '.join(VIEW)}")
        return Show(line=number, part=words[0], view=named)
    check_arguments(words[0], named, number)
    return Ask(line=number, rule=words[0], arguments=named)


def _action(verb: str, plain: list[str], named: dict[str, str], number: int) -> Action:
    match verb:
        case "submit":
            prompts = [_count(word, number) for word in plain]
            return Action(verb="submit", prompts=prompts, after=_count(named.get("after", "0"), number))
        case "prefill" if not plain and not named:
            return Action(verb="prefill")
        case "step" if len(plain) <= 1 and not named:
            return Action(verb="step", count=_count(plain[0] if plain else "1", number))
        case "run" if not plain and named.keys() <= {"until"}:
            until, _, count = named.get("until", "finished").partition(":")
            if until not in ("finished", "tokens") and until not in OPERATIONS:
                raise LessonError(number, f"run: {until!r} is neither finished, tokens:N nor an operation of the trace")
            return Action(verb="run", until=until, count=_count(count or "1", number))
        case "restart" if not plain:
            return Action(verb="restart", changes={name: _value(text) for name, text in named.items()})
        case "fork" if not plain and named.keys() <= {"rank"}:
            return Action(verb="fork", rank=_count(named.get("rank", "1"), number))
        case "fork" if not plain and named and all(name.startswith("keep.") for name in named):
            return Action(verb="fork", keep={name[5:]: _count(at, number) for name, at in named.items()})
        case "lose" if len(plain) == 1 and not named:
            return Action(verb="lose", count=_count(plain[0], number))
        case "race" if len(plain) == 1 and named.keys() <= {"prompt"}:
            if plain[0] not in LANES:
                raise LessonError(number, f"race: there is no set of lanes {plain[0]!r}; there is {', '.join(LANES)}")
            return Action(verb="race", lanes=plain[0], prompts=[_count(named.get("prompt", "0"), number)])
        case _ if verb in get_args(Verb):
            raise LessonError(number, f"do: {verb} does not take these arguments: {' '.join([*plain, *named])}")
    raise LessonError(number, f"do: there is no action {verb!r}; there are {', '.join(get_args(Verb))}")


def _count(word: str, number: int) -> int:
    if not word.isdecimal() or int(word) > 10_000:
        raise LessonError(number, f"{word!r} is not a number from 0 to 10000")
    return int(word)


def _value(text: str) -> Any:
    try:
        return toml_tables(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return text


def model_of(lesson: Lesson, changes: dict[str, Any]) -> str:
    """Return the model of a run with these changes."""
    return str(changes.get(MODEL, lesson.model))


def settings_of(lesson: Lesson, changes: dict[str, Any]) -> tuple[EngineConfig, SamplingParams]:
    """Return the lesson's engine settings and sampling parameters with these changes. Model and tiers are ignored.

    Raises:
        ValueError: a name is unknown, or a value is invalid.
    """
    changes = {name: value for name, value in changes.items() if name not in (MODEL, *TIERS)}
    known = set(EngineConfig.__struct_fields__)
    config = {**lesson.config, **{name: value for name, value in changes.items() if name in known}}
    sampling = {**lesson.sampling, **{name: value for name, value in changes.items() if name not in known}}
    for name in [*lesson.config, *[name for name in sampling if name not in SamplingParams.__struct_fields__]]:
        if name not in known:
            raise ValueError(f"there is no setting {name!r}")
    return msgspec.convert(config, EngineConfig), msgspec.convert(sampling, SamplingParams)


def _check_whole(lesson: Lesson) -> None:
    if not lesson.sections:
        raise LessonError(0, "the lesson has no section")
    lengths = {code: len(lesson.prompts.get(code, [])) for code in lesson.languages}
    if len(set(lengths.values())) > 1 or 0 in lengths.values():
        raise LessonError(1, f"prompts: each language must have the same number, at least one, not {lengths}")
    names = [section.name for section in lesson.sections]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise LessonError(0, f"two sections are named {twice!r}")
    try:
        settings_of(lesson, {})
    except ValueError as error:
        raise LessonError(1, f"the header's settings: {error}") from None
    has_raced = False
    for item in lesson.items:
        if isinstance(item, Ask | Work) and has_raced:
            raise LessonError(item.line, "the lanes of do: race could reveal the answer; ask before the race")
        if isinstance(item, Sandbox):  # afterwards a restart follows
            has_raced = False
        has_raced |= isinstance(item, Do) and item.action.verb == "race"
        if isinstance(item, Sandbox) and item is not lesson.items[-1]:
            _check_after_sandbox(lesson, item)
        if isinstance(item, Work) and item.mends:
            _check_movable(lesson, item)
        if not isinstance(item, Do):
            continue
        if (keep := item.action.keep) and keep.keys() != set(lesson.languages):
            raise LessonError(item.line, f"fork: each language is needed: keep.{'=… keep.'.join(lesson.languages)}=…")
        over = [i for i in item.action.prompts if i >= len(lesson.prompts[lesson.languages[0]])]
        if over:
            raise LessonError(item.line, f"{item.action.verb}: there is no prompt {over[0]}; the first one is 0")
        try:
            settings_of(lesson, item.action.changes)
            tiers_of(item.action.changes)
        except ValueError as error:
            raise LessonError(item.line, str(error)) from None


def _check_movable(lesson: Lesson, work: Work) -> None:
    for language in lesson.languages:
        parts = {name_of(line) for prompt in lesson.prompts[language] for line in prompt.split("\n")}
        missing = set(lesson.movable.get(language, [""])) - parts
        if missing:
            raise LessonError(work.line, f"work: mend: movable: no line of a prompt begins with {min(missing)!r}, :")


def _check_after_sandbox(lesson: Lesson, sandbox: Sandbox) -> None:
    """Check that only optional sections with their own run follow the sandbox."""
    at = lesson.items.index(sandbox)
    own = next((item for item in lesson.items[at + 1 :] if isinstance(item, Do | Ask | Work)), None)
    is_last = not any(sandbox in section.items[:-1] for section in lesson.sections)
    core = [section for section in lesson.sections if not section.optional]
    if not (is_last and core and sandbox in core[-1].items and isinstance(own, Do) and own.action.verb == "restart"):
        raise LessonError(
            sandbox.line,
            "sandbox: only optional sections may follow it, and the first must begin with do: restart",
        )
