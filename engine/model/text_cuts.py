"""Tokenization of a text that begins like an earlier text: only the part after a cut is encoded again.

A cut is a position where a tokenizer encodes both sides independently. There are two kinds:

    special token   an added token that is matched before the text is normalized
    word            a pre-token of one regular expression, with normalizer NFC or none

The end of a word depends on the text that follows. Therefore a word is a cut only if both texts are equal after it for
four runs (white space, other characters, white space, other characters) and for the length of the longest added token.
`crosses_few_runs` returns whether an expression reads no further than that.
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_right
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from tokenizers import Encoding, Tokenizer

WINDOW = 4096  # number of characters before the first difference in which a word is searched
MAX_COMPOSED = 4  # maximum number of characters that NFC composes to one
SPACES = re.compile(r"[^\S\x1c-\x1f]+")  # the characters that `\s` matches in a tokenizer's expressions
ATOM = re.compile(  # atom of an expression: its pattern, its quantifier, and the suffix of a lazy or possessive one
    r"(?P<pattern>\[\^?(?:\\.|[^\\\]])*\]|\\[pP]\{\^?\w+\}|\\.|\(\?(?:[imsx-]*:|=|!)|.)(?P<times>[*+?]|\{[\d,]+\})?[+?]?",
    re.DOTALL,
)
SPACE_ATOMS = ("\\s", "\\r", "\\n", "\\t", " ")
# atoms that are not supported, since they look back or match more than one character
UNSUPPORTED = ("\\b", "\\B", "\\A", "\\G", "\\z", "\\Z", "\\K", "\\R", "\\X", "\\h", "^", "$")


class Tokens(NamedTuple):
    """Token ids of a text, their first characters, and a flag per token that is 1 if it begins a word."""

    ids: Sequence[int]
    starts: Sequence[int]
    word_starts: bytes

    def then(self, other: Tokens, begin: int, count: int | None = None) -> Tokens:
        """Return the first `count` tokens (None: all), followed by those of a text that begins at character `begin`."""
        ids, starts = array("I", self.ids[:count]), array("I", self.starts[:count])
        ids.extend(other.ids)
        starts.extend(begin + start for start in other.starts)
        return Tokens(ids, starts, self.word_starts[:count] + other.word_starts)


@dataclass(frozen=True)
class TextCuts:
    """Cuts that a tokenizer supports."""

    special_ids: Set[int] = frozenset()
    by_words: bool = False
    longest_added: int = 0  # length in characters of the longest added token

    def num_reusable(self, text: str, tokens: Tokens, shared: int) -> int:
        """Return the number of leading tokens that every text with the same first `shared` characters has."""
        return self._word(text, tokens, shared) or self._special(tokens, shared)

    def _special(self, tokens: Tokens, shared: int) -> int:
        if not self.special_ids:
            return 0
        num_shared = bisect_right(tokens.starts, shared) - 1  # number of tokens that end before the texts differ
        return next((at for at in range(num_shared - 1, -1, -1) if tokens.ids[at] in self.special_ids), 0)

    def _word(self, text: str, tokens: Tokens, shared: int) -> int:
        if not self.by_words:
            return 0
        spaces = [found.start() for found in SPACES.finditer(text, max(0, shared - WINDOW), shared)]
        if spaces and text[shared - 1].isspace():
            del spaces[-1]
        if len(spaces) < 2:
            return 0
        at = bisect_right(tokens.starts, min(spaces[-2], shared - self.longest_added * MAX_COMPOSED))
        while (at := tokens.word_starts.rfind(1, 0, at)) > 0:
            if text[tokens.starts[at]].isascii():  # ASCII characters never compose with the previous one
                return at
        return 0


def tokens_of(encoded: Encoding) -> Tokens:
    """Return the tokens of an encoding."""
    words = encoded.word_ids
    word_starts = bytes(one != before for one, before in zip(words, [None, *words], strict=False))
    return Tokens(array("I", encoded.ids), array("I", (start for start, _ in encoded.offsets)), word_starts)


def cuts_of(tokenizer: Tokenizer) -> TextCuts:
    """Return the cuts that a tokenizer supports. It must have no `post_processor`, which could shift offsets."""
    added = tokenizer.get_added_tokens_decoder()
    special = {number for number, token in added.items() if not token.normalized}
    normalizer = tokenizer.normalizer
    is_plain = normalizer is None or _described(normalizer) == {"type": "NFC"}
    by_words = is_plain and _is_one_expression(tokenizer) and not any(one.single_word for one in added.values())
    return TextCuts(special, by_words, max((len(token.content) for token in added.values()), default=0))


def crosses_few_runs(expression: str) -> bool:
    """Return whether a match depends on no text before it, and on few runs of white space or other characters after it.

    In such an expression an unbounded repetition matches only white space, matches no white space, or is the end of its
    alternative. False for expressions that are not understood.
    """
    if any(part in expression for part in ("(?<", "(?>", "(?#", "&&", "[[", "\\Q")):
        return False
    atoms = list(ATOM.finditer(expression))
    for atom, after in zip(atoms, [*atoms, None][1:], strict=True):
        pattern, times = atom["pattern"], atom["times"] or ""
        if pattern in UNSUPPORTED or (pattern == ")" and times not in ("", "?")):
            return False
        is_last = after is None or after["pattern"] in ("|", ")")
        if (times in ("*", "+") or times.endswith(",}")) and not is_last and not _is_of_one_kind(pattern):
            return False
    return True


def _is_of_one_kind(pattern: str) -> bool:
    """Return whether an atom matches only white space, or no white space."""
    if not pattern.startswith("["):
        return pattern != "." and not pattern.startswith(("\\P", "\\p{^", "\\D", "\\W"))
    if pattern.startswith("[^"):
        return "\\s" in pattern
    spaces = sum(pattern.count(one) for one in SPACE_ATOMS)
    return not spaces or not re.sub(r"\\[srnt]| ", "", pattern[1:-1])


def _is_one_expression(tokenizer: Tokenizer) -> bool:
    """Return whether words are the matches of a single expression and the text between them."""
    if tokenizer.pre_tokenizer is None:
        return True
    described = _described(tokenizer.pre_tokenizer)
    steps = described["pretokenizers"] if described["type"] == "Sequence" else [described]
    num_expressions = 0
    for step in steps:
        if step["type"] == "ByteLevel" and not step["add_prefix_space"]:
            num_expressions += step["use_regex"]
        elif step["type"] == "Split" and step["behavior"] == "Isolated" and not step["invert"]:
            num_expressions += 1
            if not crosses_few_runs(step["pattern"].get("Regex", "")):
                return False
        else:
            return False
    return num_expressions <= 1


def _described(part: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(part.__getstate__())
    return found
