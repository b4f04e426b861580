"""Metadata of a settings field beyond its type: `name: Annotated[int, Option(...)] = 16`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from engine.options.refusal import joined, sentence

Group = Literal["cache", "scheduler", "instances", "sampling"]


class Control(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Control of an option on the page. Its kind follows from the type: select, number field, switch or text field."""

    group: Group
    usual: tuple[int, ...] = ()  # numbers of a select that replaces the number field
    step: float = 1  # step of a number field
    offered: tuple[str, ...] = ()  # a choice's values in the control, if not all of them; a text's suggestions
    initial: Any = None  # the page's initial value in a new run; None: the server's default
    none_as: int | str | None = None  # value that represents None in the control and in links
    term: str | None = None  # glossary entry of the label
    only_with: str | None = None  # the control is only shown if this switch is on


class Option(Struct, frozen=True, kw_only=True):
    """Range and use of an option. Bounds apply to values other than None."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    most: int | None = None  # maximum number of entries of a list or a map
    longest: int | None = None  # maximum number of characters of a text in a list
    holds: Callable[[Any], bool] | None = None  # further condition
    allowed: str = ""  # description of `holds` that follows "must be"
    served_max: int | None = None  # limit of servers and commands, not of the engine
    strategies: tuple[str, ...] | None = None  # strategies with this option; None: all
    derived_under: tuple[str, ...] = ()  # strategies whose resolved configuration has a derived value
    beside: str | None = None  # another option that must not be None for this one to have an effect
    may_change: bool = False  # whether it may change during a run (engine) or a request (sampling)
    flag: bool = True  # whether commands have a flag for it
    control: Control | None = None  # None: not on the page

    def range_text(self) -> str:
        """Return the range as a text that follows "must be"; empty without bounds."""
        if self.allowed:
            return self.allowed
        ge, gt, le = (None if bound is None else f"{bound:.17g}" for bound in (self.ge, self.gt, self.le))
        if ge is not None:
            return sentence("range.at_least", least=ge) if le is None else sentence("range.between", least=ge, most=le)
        over = [] if gt is None else [sentence("range.over", least=gt)]
        return joined(over if le is None else [*over, sentence("range.at_most", most=le)])

    def admits(self, value: Any) -> bool:
        """Return whether a value, which is not None, is in range. NaN is not."""
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
