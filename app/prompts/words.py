"""Texts of the report about prompts."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from engine.prompts.policies import Hit, Policy
from engine.prompts.rendering import CannotRender
from engine.prompts.report import Break
from engine.prompts.worth_keeping import Prefix
from engine.trace.messages.words import content_of, filled, flat, in_language

FOLDER = Path(__file__).parent


class Words:
    """Texts of one language. Integers are formatted with thousands separators."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._texts = in_language(language, lambda code: flat(content_of(FOLDER / f"words.{code}.json")))

    def __call__(self, key: str, **values: Any) -> str:
        shown = {name: _Number(value) if isinstance(value, int) else value for name, value in values.items()}
        return filled(self._texts[key], shown, self.language)

    def cause(self, parted: Break) -> str:
        """Return why a prompt diverges from an earlier one."""
        detail = parted.detail
        if parted.cause == "volatile_text" and detail:
            detail = ", ".join(self(f"volatile.{kind}") for kind in detail.split(","))
        return self(f"cause.{parted.cause}", detail=_counted(detail))

    def block(self, token: int, policy: Policy) -> str:
        """Return the text that names the block of a token in a cache; "" for blocks of one token."""
        return self("block", block=token // policy.unit, unit=policy.unit) if policy.unit > 1 else ""

    def refusal(self, error: CannotRender, with_reason: bool) -> str:
        """Return the text that names the request rejected by a chat template, with the template's message."""
        subject = self("no_answer_rendered" if error.is_answer else "not_rendered", number=error.number)
        return self("refused", subject=subject, reason=error.reason) if with_reason else subject

    def limit(self, hit: Hit) -> str:
        """Return why a hit is not longer; "" for the longest possible hit."""
        found = [self(f"limit.{hit.limit}", detail=_counted(hit.detail))] if hit.limit else []
        return "; ".join([*found, *([self("limit.maybe")] if hit.maybe else [])])

    def prefix(self, prefix: Prefix) -> str:
        """Return the text about the length of a prefix, the number of requests that share it, and its segments."""
        paths = prefix.paths
        place = paths[0] if len(paths) == 1 else f"{paths[0]} … {paths[-1]}"
        request = prefix.request + 1
        return self("prefix", tokens=prefix.num_tokens, later=prefix.num_later, place=place, request=request)


def percent(part: int, whole: int) -> str:
    """Format a share in percent, with one decimal."""
    return f"{100 * part / whole:.1f} %" if whole else "0 %"


def _counted(detail: str) -> int | str:
    return int(detail) if detail.isascii() and detail.isdigit() else detail


class _Number(int):
    def __str__(self) -> str:
        return f"{int(self):,}"


words = functools.cache(Words)
