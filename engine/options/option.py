"""Metadata of a settings field beyond its type: `name: Annotated[int, Option(...)] = 16`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from engine.options.refusal import joined, sentence

Group = Literal["cache", "scheduler", "instances", "sampling"]


class Control(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the page offers an option. Its kind follows from the type: select, number field, switch or text field."""

    group: Group
    usual: tuple[int, ...] = ()  # numbers offered in a select, instead of a number field
    step: float = 1  # of a number field
    offered: tuple[str, ...] = ()  # of a choice: the values in the control, if not all; of a text: some to choose from
    initial: Any = None  # the page asks for this value in every new run; None: for the server's default
    none_as: int | str | None = None  # what stands for None in the control and in links
    term: str | None = None  # the glossary's entry behind the label
    only_with: str | None = None  # a switch: the control is there while that is on


class Option(Struct, frozen=True, kw_only=True):
    """Range and use of one option. Bounds are those of a value that is not None."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    most: int | None = None  # entries of a list or a map
    longest: int | None = None  # characters of a text in a list
    holds: Callable[[Any], bool] | None = None  # for what is no range of numbers
    allowed: str = ""  # what `holds` asks for, in words that follow "must be"
    served_max: int | None = None  # the most that a server or a command takes; the bare engine takes more
    strategies: tuple[str, ...] | None = None  # under which it can be chosen; None: under all
    derived_under: tuple[str, ...] = ()  # strategies whose resolved configuration has another value than the chosen one
    beside: str | None = None  # it means something only where that other option is not None
    may_change: bool = False  # whether it may change while a run (an engine) or a request (its sampling) is active
    flag: bool = True  # whether commands have a flag for it
    control: Control | None = None  # None: the page does not offer it

    def range_text(self) -> str:
        """Return the range in words that follow "must be"; empty without bounds."""
        if self.allowed:
            return self.allowed
        ge, gt, le = (None if bound is None else f"{bound:.17g}" for bound in (self.ge, self.gt, self.le))
        if ge is not None:
            return sentence("range.at_least", least=ge) if le is None else sentence("range.between", least=ge, most=le)
        over = [] if gt is None else [sentence("range.over", least=gt)]
        return joined(over if le is None else [*over, sentence("range.at_most", most=le)])

    def admits(self, value: Any) -> bool:
        """Return whether a value that is not None is in range. A number that is not one (NaN) is in no range."""
        if self.most is not None and len(value) > self.most:
            return False
        if self.longest is not None and any(len(one) > self.longest for one in value):
            return False
        if self.holds is not None and not self.holds(value):
            return False
        return (
            (self.ge is None or value >= self.ge)
            and (self.gt is None or value > self.gt)
            and (self.le is None or value <= self.le)
        )
