"""Questions, and the table of rules that generate them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from msgspec import Struct, structs

from app.lessons.lesson import LessonError
from app.lessons.questions.pictured import Place, nowhere
from app.lessons.scene import Operation, Scene

Value = str | int | float
T = TypeVar("T", str, int)
MAX_OPTIONS = 5


class Option(Struct, frozen=True, kw_only=True):
    """Answer option.

    Attributes:
        text: key of its text.
        values: placeholders of its texts.
        number: value of a numeric answer.
        why: key of the explanation of the misconception behind it, or None.
        place: position in the picture, or None.
    """

    text: str
    values: dict[str, Value] = {}
    number: float | None = None
    why: str | None = None
    place: Place | None = None


class Evidence(Struct, frozen=True, kw_only=True):
    """Evidence in the log: the record that decides the question, an operation in it, and the figure read from it."""

    record: int
    op: int | None = None
    figure: str = ""


def evidence_of(found: Operation[Any], figure: str) -> Evidence:
    """Return the evidence of an operation."""
    return Evidence(record=found.record.index, op=found.op_index, figure=figure)


class Question(Struct, frozen=True, kw_only=True):
    """Question with its options, one of which is right. `values`: placeholders of its texts.

    `several`: whether the run has several sequences, so that the question must name its sequence.
    """

    rule: str
    values: dict[str, Value]
    options: list[Option]
    right: int
    evidence: Evidence
    several: bool = False

    def __post_init__(self) -> None:
        if len(self.options) > MAX_OPTIONS:
            raise ValueError(f"{self.rule} has {len(self.options)} answers; a question has at most {MAX_OPTIONS}")


Rule = Callable[..., Question]
RULES: dict[str, Rule] = {}


def rule(function: Rule) -> Rule:
    """Register a function as a rule, under its name."""
    RULES[function.__name__] = function
    return function


def ask(name: str, arguments: dict[str, str], scene: Scene) -> Question:
    """Return the question of a rule for a scene.

    Raises:
        Undecided: the run does not decide the question.
    """
    wanted = inspect.signature(RULES[name]).parameters
    values = {key: int(text) if wanted[key].annotation == "int" else text for key, text in arguments.items()}
    return structs.replace(RULES[name](scene, **values), several=len(scene.final_state.sequences) > 1)


def check_arguments(name: str, arguments: dict[str, str], line: int) -> None:
    """Raise LessonError for an unknown rule or invalid arguments."""
    if name not in RULES:
        raise LessonError(line, f"ask: there is no rule {name!r}; there are {', '.join(sorted(RULES))}")
    wanted = dict(list(inspect.signature(RULES[name]).parameters.items())[1:])
    if unknown := arguments.keys() - wanted.keys():
        takes = ", ".join(wanted) or "no arguments"
        raise LessonError(line, f"ask: {name} has no argument {min(unknown)!r}; it takes {takes}")
    for key, parameter in wanted.items():
        if key not in arguments and parameter.default is parameter.empty:
            raise LessonError(line, f"ask: {name} needs {key}=…")
        if key in arguments and parameter.annotation == "int" and not arguments[key].isdecimal():
            raise LessonError(line, f"ask: {name}: {key} must be a whole number, not {arguments[key]!r}")


def numbers(
    name: str,
    right: float,
    wrong: Iterable[tuple[str, float]],
    evidence: Evidence,
    *,
    place: Callable[[float], Place | None] = nowhere,
    text: str = "number",
    **values: Value,
) -> Question:
    """Return a question with numeric answers in ascending order.

    Args:
        wrong: misconceptions (keys of texts) with the numbers that follow from them. Right, negative and duplicate
            numbers are dropped.
        place: returns the position of a number in the picture.
    """
    found: dict[float, Option] = {right: _number(text, right, None, place)}
    for why, number in wrong:
        if number not in found and number >= 0 and len(found) < MAX_OPTIONS:
            found[number] = _number(text, number, why, place)
    distance = 1
    while len(found) < 3:  # add neighbouring numbers
        for number in (right + distance, right - distance):
            if number not in found and number >= 0 and len(found) < 3:
                found[number] = _number(text, number, "near", place)
        distance += 1
    options = [found[number] for number in sorted(found)]
    return Question(
        rule=name,
        values=values,
        options=options,
        right=options.index(found[right]),
        evidence=evidence,
    )


def select_options(keys: Iterable[T], right: T) -> list[T]:
    """Return the right key and the first other ones, at most MAX_OPTIONS in total, in order."""
    found = list(dict.fromkeys(keys))
    wrong = [key for key in found if key != right][: MAX_OPTIONS - 1]
    return [key for key in found if key == right or key in wrong]


def choice(
    name: str,
    right: str,
    all_of: Iterable[str],
    evidence: Evidence,
    *,
    why: Iterable[str] = (),
    whys: Mapping[str, str] = MappingProxyType({}),
    of_options: Mapping[str, Mapping[str, Value]] = MappingProxyType({}),
    places: Mapping[str, Place | None] = MappingProxyType({}),
    **values: Value,
) -> Question:
    """Return a question whose options have the texts `question.<rule>.answer.<key>`, in a fixed order.

    Args:
        all_of: keys of the options. The last wrong ones beyond MAX_OPTIONS are dropped.
        why: keys of wrong options that have an explanation of the same key.
        whys: keys of explanations, by option.
        of_options: additional placeholders, by option.
        places: positions in the picture, by option.
    """
    reasons, keys = {**{key: key for key in why}, **whys}, select_options(all_of, right)
    options = [
        Option(
            text=f"question.{name}.answer.{key}",
            values={**values, **of_options.get(key, {})},
            why=reasons.get(key) if key != right else None,
            place=places.get(key),
        )
        for key in keys
    ]
    return Question(rule=name, values=values, options=options, right=keys.index(right), evidence=evidence)


def comparison_whys(right: str, options: Iterable[str]) -> dict[str, str]:
    """Return the explanations of wrong answers to a comparison. If nothing has changed, all have the same one."""
    return {key: "as_before" if right == "same" else key for key in options}


def _number(text: str, number: float, why: str | None, place: Callable[[float], Place | None]) -> Option:
    shown: Value = int(number) if float(number).is_integer() else number
    return Option(text=f"answer.{text}", values={"n": shown}, number=number, why=why, place=place(number))
