"""Module name patterns in the lists of a `quantization_config`.

An entry is a part of a dotted name (`visual`, `model.layers.0.mlp.gate`), a glob with `*`, or `re:` and a regular
expression. Prefixes such as `model` differ between checkpoint and loaded model, so they are removed. Regular
expressions are untrusted, so only those with bounded search time are accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

PREFIXES = {"model", "language_model", "text_model", "transformer"}
MAX_PATTERNS = 256  # in addition to plain names
MAX_LENGTH = 400
MAX_REPEATS = 2  # quantifiers between two `.*`
_REPEAT = re.compile(r"(?<!\\)[*+?{]")
_REPEATED_GROUP = re.compile(r"(?<!\\)\)[*+?{]")


class NamePatterns:
    """Set of module name patterns. `unread`: entries that are not supported."""

    def __init__(self, entries: Iterable[object]) -> None:
        self._names: set[str] = set()
        self._globs: list[str] = []
        self._expressions: list[list[re.Pattern[str]]] = []
        self.unread: list[str] = []
        for one in entries:
            self._add(str(one))

    def _add(self, entry: str) -> None:
        patterns = len(self._globs) + len(self._expressions)
        if entry.startswith("re:"):
            found = _split_expression(entry[3:]) if patterns < MAX_PATTERNS else None
            if found is None:
                self.unread.append(entry)
            else:
                self._expressions.append(found)
        elif "*" in entry:
            if patterns < MAX_PATTERNS and len(entry) <= MAX_LENGTH:
                self._globs.append(f"*.{_short(entry)}.*")
            else:
                self.unread.append(entry)
        elif name := _short(entry):
            self._names.add(name)

    def match(self, name: str) -> bool:
        """Return whether a pattern matches the module or a module that contains it."""
        short = _short(name)
        parts = short.split(".")
        runs = (".".join(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1))
        if not self._names.isdisjoint(runs):
            return True
        if any(fnmatchcase(f".{short}.", glob) for glob in self._globs):
            return True
        spelled = (name, short, f"model.{short}")
        return any(_matches_in_order(pieces, one) for pieces in self._expressions for one in spelled)


def _short(name: str) -> str:
    return ".".join(part for part in name.split(".") if part not in PREFIXES)


def _split_expression(expression: str) -> list[re.Pattern[str]] | None:
    """Return the pieces between `.*`, or None if the expression is invalid or has too many or nested quantifiers."""
    pieces = expression.split(".*")
    if len(expression) > MAX_LENGTH or any(len(_REPEAT.findall(piece)) > MAX_REPEATS for piece in pieces):
        return None
    if any(_REPEATED_GROUP.search(piece) for piece in pieces):
        return None
    try:
        return [re.compile(piece) for piece in pieces]
    except (re.error, RecursionError, OverflowError):
        return None


def _matches_in_order(pieces: list[re.Pattern[str]], name: str) -> bool:
    """Return whether the name begins with the first piece and then has the others in order."""
    place = 0
    for index, piece in enumerate(pieces):
        found = piece.search(name, place) if index else piece.match(name)
        if found is None:
            return False
        place = found.end()
    return True
