"""Tokens of a text that begins like an earlier text: only the part after a cut is encoded again.

A cut is a place where a tokenizer encodes both sides apart from each other. There are two kinds:

    special token   an added token that is matched before the text is normalized
    word            a pre-token of one regular expression, with normalizer NFC or none

Where a word ends depends on the text that follows. So a word is a cut only if both texts are equal after it for a run
of white space, of other characters, of white space and of other characters, and for the length of the longest added
token. `crosses_few_runs` returns whether an expression reads no further than that.
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

WINDOW = 4096  # characters before the first difference in which a word is looked for
NORMALIZED_FROM = 4  # characters, at most, that NFC makes one
SPACES = re.compile(r"[^\S\x1c-\x1f]+")  # what `\s` finds in a tokenizer's expressions
ATOM = re.compile(  # of an expression: what is matched, how often, and whether it is lazy or possessive
    r"(?P<what>\[\^?(?:\\.|[^\\\]])*\]|\\[pP]\{\^?\w+\}|\\.|\(\?(?:[imsx-]*:|=|!)|.)(?P<times>[*+?]|\{[\d,]+\})?[+?]?",
    re.DOTALL,
)
SPACE_ATOMS = ("\\s", "\\r", "\\n", "\\t", " ")
UNREAD = (
    "\\b",
    "\\B",
    "\\A",
    "\\G",
    "\\z",
    "\\Z",
    "\\K",
    "\\R",
    "\\X",
    "\\h",
    "^",
    "$",
)  # they look back, or match more


class Tokens(NamedTuple):
    """Token ids of a text, the character at which each begins, and 1 for each that begins a word, else 0."""

    ids: Sequence[int]
    starts: Sequence[int]
    firsts: bytes

    def then(self, other: Tokens, begin: int, count: int | None = None) -> Tokens:
        """Return the first `count` tokens, all if it is None, and those of a text that begins at character `begin`."""
        ids, starts = array("I", self.ids[:count]), array("I", self.starts[:count])
        ids.extend(other.ids)
        starts.extend(begin + start for start in other.starts)
        return Tokens(ids, starts, self.firsts[:count] + other.firsts)


@dataclass(frozen=True)
class TextCuts:
    """Places where texts of a tokenizer can be cut. `longest_added`: in characters."""

    special_ids: Set[int] = frozenset()
    by_words: bool = False
    longest_added: int = 0

    def num_alike(self, text: str, tokens: Tokens, shared: int) -> int:
        """Return how many tokens of a text begin every text that shares its first `shared` characters."""
        return self._word(text, tokens, shared) or self._special(tokens, shared)

    def _special(self, tokens: Tokens, shared: int) -> int:
        if not self.special_ids:
            return 0
        whole = bisect_right(tokens.starts, shared) - 1  # tokens that end before the texts differ
        return next((at for at in range(whole - 1, -1, -1) if tokens.ids[at] in self.special_ids), 0)

    def _word(self, text: str, tokens: Tokens, shared: int) -> int:
        if not self.by_words:
            return 0
        spaces = [found.start() for found in SPACES.finditer(text, max(0, shared - WINDOW), shared)]
        if spaces and text[shared - 1].isspace():
            del spaces[-1]
        if len(spaces) < 2:
            return 0
        at = bisect_right(tokens.starts, min(spaces[-2], shared - self.longest_added * NORMALIZED_FROM))
        while (at := tokens.firsts.rfind(1, 0, at)) > 0:
            if text[tokens.starts[at]].isascii():  # it composes with nothing before it
                return at
        return 0


def tokens_of(encoded: Encoding) -> Tokens:
    """Return the tokens of an encoding."""
    words = encoded.word_ids
    firsts = bytes(one != before for one, before in zip(words, [None, *words], strict=False))
    return Tokens(array("I", encoded.ids), array("I", (start for start, _ in encoded.offsets)), firsts)


def cuts_of(tokenizer: Tokenizer) -> TextCuts:
    """Return where texts of a tokenizer can be cut. Without a `post_processor`, which may move offsets."""
    added = tokenizer.get_added_tokens_decoder()
    special = {number for number, token in added.items() if not token.normalized}
    normalizer = tokenizer.normalizer
    is_plain = normalizer is None or _described(normalizer) == {"type": "NFC"}
    by_words = is_plain and _is_one_expression(tokenizer) and not any(one.single_word for one in added.values())
    return TextCuts(special, by_words, max((len(token.content) for token in added.values()), default=0))


def crosses_few_runs(expression: str) -> bool:
    """Return whether a match depends on no text before it, and on few runs of white space or others after it.

    What may be repeated without end is then only white space, has none, or ends its alternative. Expressions that are
    not understood are refused.
    """
    if any(part in expression for part in ("(?<", "(?>", "(?#", "&&", "[[", "\\Q")):
        return False
    atoms = list(ATOM.finditer(expression))
    for atom, after in zip(atoms, [*atoms, None][1:], strict=True):
        what, times = atom["what"], atom["times"] or ""
        if what in UNREAD or (what == ")" and times not in ("", "?")):
            return False
        is_last = after is None or after["what"] in ("|", ")")
        if (times in ("*", "+") or times.endswith(",}")) and not is_last and not _is_of_one_kind(what):
            return False
    return True


def _is_of_one_kind(what: str) -> bool:
    """Return whether an expression matches only white space, or none."""
    if not what.startswith("["):
        return what != "." and not what.startswith(("\\P", "\\p{^", "\\D", "\\W"))
    if what.startswith("[^"):
        return "\\s" in what
    spaces = sum(what.count(one) for one in SPACE_ATOMS)
    return not spaces or not re.sub(r"\\[srnt]| ", "", what[1:-1])


def _is_one_expression(tokenizer: Tokenizer) -> bool:
    """Return whether words are the matches of one expression, and the text between them."""
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
