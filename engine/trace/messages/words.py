"""Texts of a language, and filling their placeholders."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Decimal
from decimal import Context as Rounding
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal

from engine.trace.messages.facets import Context, Values, messages_of
from engine.trace.operations import Op

Register = Literal["chain", "plain", "short", "long"]
"""`chain`: name in a chain of links; `plain`: sentence for newcomers, default `short`; `short`: sentence in technical
terms; `long`: with every number."""
FOLDER = Path(__file__).parent
THREE_DIGITS = Rounding(prec=3, rounding=ROUND_HALF_UP)
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
MAX_RANGES = 6  # longer lists of blocks end with an ellipsis
MISSING = "–"  # for a value that an inconsistent log lacks
LISTS_OF_BLOCKS = ("block_id", "block_ids", "logical", "cpu_block_id", "lost_block_id", "src", "dst")
# Plural form of a number by CLDR's rules, https://cldr.unicode.org/index/cldr-spec/plural-rules. Languages that are
# not listed use the last form.
PLURALS: dict[str, Callable[[float], int]] = {"en": lambda n: 0 if n == 1 else 1}

_CHOICE = re.compile(r"\{(\w+)\|([^}]*)\}")
_NAME = re.compile(r"\{(\w+)\}( ?)")


def languages() -> list[str]:
    """Return the codes of languages with texts for operations."""
    return sorted(path.name.split(".")[1] for path in FOLDER.glob("words.*.json"))


@functools.cache
def texts(language: str) -> dict[str, str]:
    """Return key -> text: nested names joined by dots; English for missing keys."""
    return in_language(language, lambda code: flat(content_of(FOLDER / f"words.{code}.json")))


def in_language(language: str, texts_of: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """Return a language's texts, with English for missing keys."""
    return texts_of("en") if language == "en" else {**texts_of("en"), **texts_of(language)}


def content_of(path: Traversable) -> Any:
    """Return the entries of a text file; empty if the file does not exist."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def flat(entries: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Return nested texts by their names joined by dots; a list of lines is joined."""
    found: dict[str, str] = {}
    for name, entry in entries.items():
        if isinstance(entry, dict):
            found |= flat(entry, f"{prefix}{name}.")
        else:
            found[prefix + name] = entry if isinstance(entry, str) else "".join(entry)
    return found


class Voice:
    """Renders operations in one language.

    `name` names a sequence. `first_record` is the number of the first record: 1 on the page, 0 on the command line and
    in the format. `thin_space` separates a number from its unit.
    """

    def __init__(
        self,
        language: str = "en",
        *,
        name: Callable[[int], str] | None = None,
        first_record: int = 1,
        thin_space: str = "\u2009",
    ) -> None:
        self.language = language
        self._texts = texts(language)
        self._name = name or (lambda seq_id: self.say("sequence.name", id=seq_id))
        self._first_record = first_record
        self._thin_space = thin_space

    def say(self, key: str, **values: Any) -> str:
        """Return a text with unformatted values."""
        return filled(self._texts[key], values, self.language)

    def tell(self, op: Op, context: Context | None = None, register: Register = "long") -> str:
        """Return the message of an operation."""
        sentences = []
        for part in messages_of(op, context):
            text = self._texts.get(f"{part.key}.{register}")
            if text is not None:
                shown = {name: self._shown(name, part.values) for name in part.values}
                sentences.append(filled(text, shown, self.language))
        if register == "plain" and not sentences:
            return self.tell(op, context, "short")
        return self._texts["join.sentences"].join(sentences)

    def _shown(self, name: str, values: Values) -> Any:
        value = values[name]
        if name == "seq_id" or name.endswith("_seq_id") or name == "evicted_for":
            return self._name(value)
        if name in LISTS_OF_BLOCKS:
            return ranges_text(value if isinstance(value, list) else [value])
        if name == "num_bytes":
            return bytes_text(value, self._thin_space)
        if name == "media":
            media = [self.say(f"medium.{medium}") for medium in dict.fromkeys(value)]
            return self._texts["join.list"].join(media) or MISSING
        if name.endswith("_seconds") or name == "lease":
            return seconds_text(value, self._thin_space)
        if name == "evicted_in":
            return value + self._first_record
        return int(value) if isinstance(value, bool) else value


def filled(text: str, values: Mapping[str, Any], language: str) -> str:
    """Fill a text with values, choosing plural forms by their numbers.

    No space follows a value that ends in a full-width parenthesis.
    """

    def chosen(found: re.Match[str]) -> str:
        number, forms, rule = values.get(found[1]), found[2].split("|"), PLURALS.get(language)
        form = rule(number) if rule and isinstance(number, int | float) else len(forms) - 1
        return forms[min(form, len(forms) - 1)]

    def value(found: re.Match[str]) -> str:
        shown = str(values.get(found[1], MISSING))
        return shown if shown.endswith("）") else shown + found[2]

    return _NAME.sub(value, _CHOICE.sub(chosen, text))


def ranges_text(ids: list[int]) -> str:
    """Return block ids with consecutive ones as ranges: `3–7, 12`."""
    ranges: list[list[int]] = []
    for one in ids:
        if ranges and one == ranges[-1][1] + 1:
            ranges[-1][1] = one
        else:
            ranges.append([one, one])
    parts = [f"{a}" if a == b else f"{a}, {b}" if b == a + 1 else f"{a}–{b}" for a, b in ranges]
    return ", ".join(parts[: MAX_RANGES - 1]) + ", …" if len(parts) > MAX_RANGES else ", ".join(parts)


def bytes_text(count: int, thin_space: str = "\u2009") -> str:
    """Return the bytes as B, KiB, MiB, … with at most two decimals."""
    unit, value = 0, Decimal(count)
    while value >= 1024 and unit < len(UNITS) - 1:
        value /= 1024
        unit += 1
    digits = 0 if unit == 0 else 2 if value < 10 else 1
    rounded = value.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP)
    shown = f"{rounded:f}"
    return f"{shown.rstrip('0').rstrip('.') if '.' in shown else shown}{thin_space}{UNITS[unit]}"


def seconds_text(seconds: float, thin_space: str = "\u2009") -> str:
    """Return the seconds as ms with three digits, or as s."""
    if seconds < 1:
        shown = f"{THREE_DIGITS.create_decimal(Decimal(seconds * 1000)):f}"
        return f"{shown.rstrip('0').rstrip('.') if '.' in shown else shown}{thin_space}ms"
    return f"{Decimal(seconds).quantize(Decimal('0.01' if seconds < 10 else '0.1'), ROUND_HALF_UP)}{thin_space}s"
