"""Numbers in lesson texts: digits with an optional unit of bytes or percent sign, or words up to twenty."""

from __future__ import annotations

import re
from decimal import Decimal

_WORDS = {
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty": 0,
    "once twice": 1,
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth": 0,
}
WORDS = {"none": 0, "nothing": 0} | {
    word: first + i for words, first in _WORDS.items() for i, word in enumerate(words.split())
}
_DIGITS = {digit: i for i, digit in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}
_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "kB": 10**3, "MB": 10**6, "GB": 10**9}
_NUMBER = re.compile(r"([-−]?\d[\d,]*(?:\.\d+)?)\s*(B|KiB|MiB|GiB|TiB|kB|MB|GB|%|‰)?")
_CHINESE = re.compile(r"[零〇一二两三四五六七八九十百]+")


class StatedNumber(Decimal):
    """Number in a text. `unit` is the value of its last digit, by which rounding is checked."""

    unit: Decimal = Decimal(1)


def number_in(text: str) -> StatedNumber | None:
    """Return the first number in a text, or None.

    Units of bytes are converted to bytes, and percentages to fractions.
    """
    if found := _NUMBER.search(text):
        digits = found[1].replace(",", "").replace("−", "-")
        scale = Decimal(_UNITS.get(found[2] or "", 1))
        scale /= {"%": 100, "‰": 1000}.get(found[2] or "", 1)
        places = len(digits.partition(".")[2])
        number = StatedNumber(Decimal(digits) * scale)
        number.unit = Decimal(1).scaleb(-places) * scale
        return number
    for word in re.findall(r"[a-z]+", text.lower()):
        if word in WORDS:
            return StatedNumber(WORDS[word])
    if chinese := _CHINESE.search(text):
        return StatedNumber(_chinese(chinese[0]))
    return None


def in_digits(value: float, like: str) -> str:
    """Format a number in the unit of another text: for `like` "4 KiB", in KiB."""
    found = _NUMBER.search(like)
    unit = found[2] if found and found[2] else ""
    shown = value / _UNITS.get(unit, 1) * {"%": 100, "‰": 1000}.get(unit, 1)
    return f"{significant(shown, 4) if shown % 1 else f'{shown:,.0f}'} {unit}".strip()


def significant(value: float, digits: int) -> str:
    """Format a number with `digits` significant digits, without exponent and trailing zeros."""
    exact = Decimal(f"{value:.{digits - 1}e}")
    text = f"{exact:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def agrees(stated: StatedNumber, found: float) -> bool:
    """Return whether a stated number equals `found`, rounded to its last digit."""
    return abs(Decimal(stated) - Decimal(repr(found) if isinstance(found, float) else found)) <= stated.unit / 2


def _chinese(text: str) -> int:
    """Parse a Chinese number up to 999: 十六, 二十, 一百零八."""
    total = digit = 0
    for letter in text:
        if letter in "十百":
            total += (digit or 1) * (10 if letter == "十" else 100)
            digit = 0
        else:
            digit = _DIGITS[letter]
    return total + digit
