"""Stop strings, found in text that comes bit by bit."""

from __future__ import annotations

from collections.abc import Sequence


class StopStrings:
    """Searches for several strings at once, by Knuth, Morris and Pratt (SIAM J. Comput. 6, 1977).

    A character of the text costs each string constant time on average, however long the string or the text is.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        """strings: none is empty."""
        self._strings = [(string, _borders(string)) for string in strings]
        self._matched = [0] * len(strings)  # characters at the end of the text that are the beginning of each

    def copy(self) -> StopStrings:
        """Return the same state, for a fork of the text."""
        found = StopStrings(())
        found._strings, found._matched = self._strings, list(self._matched)
        return found

    @property
    def pending(self) -> int:
        """Length of the longest end of the text that is the beginning of a stop string."""
        return max(self._matched, default=0)

    def feed(self, text: str) -> tuple[int, str] | None:
        """Search the next piece of the text.

        Returns:
            The stop string that begins first of those that end in this piece, of equals the least, and where it begins
            (negative: before the piece).
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
