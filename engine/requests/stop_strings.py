"""Search for stop strings in a text that arrives in pieces."""

from __future__ import annotations

from collections.abc import Sequence


class StopStrings:
    """Simultaneous search for several strings by Knuth, Morris and Pratt (SIAM J. Comput. 6, 1977).

    The amortized time per character and string is constant, regardless of the strings' lengths.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        """`strings`: non-empty strings."""
        self._strings = [(string, _borders(string)) for string in strings]
        self._matched = [0] * len(strings)  # length of each string's longest prefix at the end of the text

    def copy(self) -> StopStrings:
        """Return a copy of the state, for a fork of the text."""
        found = StopStrings(())
        found._strings, found._matched = self._strings, list(self._matched)
        return found

    @property
    def pending(self) -> int:
        """Length of the longest prefix of a stop string at the end of the text."""
        return max(self._matched, default=0)

    def feed(self, text: str) -> tuple[int, str] | None:
        """Search the next piece of the text.

        Returns:
            The position and the text of the stop string that ends in this piece and begins first (on ties the smallest
            string), or None. The position is relative to the piece, so it may be negative.
        """
        first: dict[str, int] = {}
        for number, (string, borders) in enumerate(self._strings):
            matched = self._matched[number]
            for at, letter in enumerate(text):
                while matched and string[matched] != letter:
                    matched = borders[matched - 1]
                matched += string[matched] == letter
                if matched == len(string):
                    first.setdefault(string, at + 1 - matched)
                    matched = borders[matched - 1]
            self._matched[number] = matched
        return min(((at, string) for string, at in first.items()), default=None)


def _borders(string: str) -> list[int]:
    """Return for each prefix of `string` the length of its longest proper suffix that is also a prefix."""
    found, matched = [0] * len(string), 0
    for at in range(1, len(string)):
        while matched and string[matched] != string[at]:
            matched = found[matched - 1]
        matched += string[matched] == string[at]
        found[at] = matched
    return found
