"""Texts of a language, and functions that fill their placeholders."""

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

from engine.trace.messages.facets import Context, messages_of
from engine.trace.operations import Op

Register = Literal["chain", "plain", "short", "long"]
FOLDER = Path(__file__).parent
THREE_DIGITS = Rounding(prec=3, rounding=ROUND_HALF_UP)
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
MAX_RANGES = 6  # longer lists of blocks end with an ellipsis
MISSING = "–"  # replaces a value that the log does not have
BLOCK_FIELDS = ("block_id", "block_ids", "logical", "cpu_block_id", "lost_block_id", "src", "dst")
# Language -> index of a number's plural form by CLDR's rules, https://cldr.unicode.org/index/cldr-spec/plural-rules.
# Languages that are not listed use the last form.
PLURALS: dict[str, Callable[[float], int]] = {"en": lambda n: 0 if n == 1 else 1}

_CHOICE = re.compile(r"\{(\w+)\|([^}]*)\}")
_NAME = re.compile(r"\{(\w+)\}( ?)")


def languages() -> list[str]:
    """Return the codes of the languages with texts for operations."""
    return sorted(path.name.split(".")[1] for path in FOLDER.glob("words.*.json"))


@functools.cache
def texts(language: str) -> dict[str, str]:
    """Return the texts of a language by key (names joined by dots), with English texts for missing keys."""
    return in_language(language, lambda code: flat(content_of(FOLDER / f"words.{code}.json")))


def in_language(language: str, texts_of: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """Return `texts_of` a language, with English texts for missing keys."""
    return texts_of("en") if language == "en" else {**texts_of("en"), **texts_of(language)}


def content_of(path: Traversable) -> Any:
    """Return the entries of a text file, or {} if the file does not exist."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def flat(entries: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Flatten nested texts: names are joined by dots, and a list of lines becomes one text."""
    found: dict[str, str] = {}
    for name, entry in entries.items():
        if isinstance(entry, dict):
            found |= flat(entry, f"{prefix}{name}.")
        else:
            found[prefix + name] = entry if isinstance(entry, str) else "".join(entry)
    return found


class Voice:
    """Renders operations in one language.

    Args:
        name: returns the name of a sequence.
        first_record: number of the first record: 1 on the page, 0 on the command line and in the format.
        thin_space: separates a number from its unit.
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
        """Return the text of a key, filled with unformatted values."""
        return filled(self._texts[key], values, self.language)

    def render(self, op: Op, context: Context | None = None, register: Register = "long") -> str:
        """Return the message of an operation."""
        sentences = []
        for message in messages_of(op, context):
            text = self._texts.get(f"{message.key}.{register}")
            if text is not None:
                formatted = {name: self._format(name, value) for name, value in message.values.items()}
                sentences.append(filled(text, formatted, self.language))
        if register == "plain" and not sentences:
            return self.render(op, context, "short")
        return self._texts["join.sentences"].join(sentences)

    def _format(self, name: str, value: Any) -> Any:
        if name == "seq_id" or name.endswith("_seq_id") or name == "evicted_for":
            return self._name(value)
        if name in BLOCK_FIELDS:
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
    """Fill the placeholders of a text, and select its plural forms.

    A space after a value that ends in a full-width parenthesis is removed.
    """

    def plural_form(match: re.Match[str]) -> str:
        number, forms, rule = values.get(match[1]), match[2].split("|"), PLURALS.get(language)
        index = rule(number) if rule and isinstance(number, int | float) else len(forms) - 1
        return forms[min(index, len(forms) - 1)]

    def value_text(match: re.Match[str]) -> str:
        value = str(values.get(match[1], MISSING))
        return value if value.endswith("）") else value + match[2]

    return _NAME.sub(value_text, _CHOICE.sub(plural_form, text))


def ranges_text(ids: list[int]) -> str:
    """Format block ids, with consecutive ids as ranges: `3–7, 12`."""
    ranges: list[list[int]] = []
    for one in ids:
        if ranges and one == ranges[-1][1] + 1:
            ranges[-1][1] = one
        else:
            ranges.append([one, one])
    parts = [f"{a}" if a == b else f"{a}, {b}" if b == a + 1 else f"{a}–{b}" for a, b in ranges]
    return ", ".join(parts[: MAX_RANGES - 1]) + ", …" if len(parts) > MAX_RANGES else ", ".join(parts)


def bytes_text(count: int, thin_space: str = "\u2009") -> str:
    """Format a number of bytes in B, KiB, MiB, … with at most two decimals."""
    unit, value = 0, Decimal(count)
    while value >= 1024 and unit < len(UNITS) - 1:
        value /= 1024
        unit += 1
    digits = 0 if unit == 0 else 2 if value < 10 else 1
    rounded = value.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP)
    shown = f"{rounded:f}"
    return f"{shown.rstrip('0').rstrip('.') if '.' in shown else shown}{thin_space}{UNITS[unit]}"


def seconds_text(seconds: float, thin_space: str = "\u2009") -> str:
    """Format seconds below 1 in ms with three digits, others in s."""
    if seconds < 1:
        shown = f"{THREE_DIGITS.create_decimal(Decimal(seconds * 1000)):f}"
        return f"{shown.rstrip('0').rstrip('.') if '.' in shown else shown}{thin_space}ms"
    return f"{Decimal(seconds).quantize(Decimal('0.01' if seconds < 10 else '0.1'), ROUND_HALF_UP)}{thin_space}s"
