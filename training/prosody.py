"""Rhyme and tone of Chinese verse, read with today's pronunciation (pypinyin).

The poems were written for the sounds of their own time, so even the best of them do not score 100 % by these rules:
the figures mean something only beside the same figures for real poems and for shuffled ones.
"""

from __future__ import annotations

import itertools
import random

from pypinyin import Style, lazy_pinyin

LEVEL = {"1", "2"}  # 平, in today's Mandarin; the third and fourth tones are 仄
# Finals that differ in their glide, or by a historic split, and rhyme: the groups of the Thirteen Tracks (十三辙).
TRACKS = (
    ("a", "ia", "ua"),
    ("o", "e", "uo"),
    ("ie", "ve", "ue", "üe"),
    ("i", "v", "ü", "er"),
    ("u",),
    ("ai", "uai"),
    ("ei", "ui", "uei"),
    ("ao", "iao"),
    ("ou", "iu", "iou"),
    ("an", "ian", "uan", "van", "üan"),
    ("en", "in", "un", "uen", "vn", "ün"),
    ("ang", "iang", "uang"),
    ("eng", "ing", "ueng", "ong", "iong"),
)
TRACK_OF = {final: index for index, finals in enumerate(TRACKS) for final in finals}


def rhymes(one: str, other: str) -> bool:
    """Whether two characters are of one track; a character does not rhyme with itself."""
    a, b = (TRACK_OF.get(lazy_pinyin(char, style=Style.FINALS, strict=False)[0]) for char in (one, other))
    return one != other and a is not None and a == b


def is_level(char: str) -> bool:
    """Whether the character's tone is level (平)."""
    return lazy_pinyin(char, style=Style.TONE3)[0][-1] in LEVEL


def alternates(clause: str) -> bool:
    """Whether the tones of the second, fourth (and sixth) characters alternate, as regulated verse wants."""
    tones = [is_level(clause[place]) for place in range(1, len(clause) - 1, 2)]
    return all(a != b for a, b in itertools.pairwise(tones))


def prosody(quatrains: list[list[str]]) -> dict[str, float]:
    """Shares among quatrains (four clauses without punctuation each).

    `rhyme`: the second and the fourth clause end in one track. `level_rhyme`: both end in a level tone. `alternation`:
    clauses whose tones alternate; half of them would by chance where there are two places, a quarter with three.
    """
    clauses = [clause for quatrain in quatrains for clause in quatrain]
    return {
        "quatrains": len(quatrains),
        "rhyme": sum(rhymes(q[1][-1], q[3][-1]) for q in quatrains) / len(quatrains),
        "level_rhyme": sum(is_level(q[1][-1]) and is_level(q[3][-1]) for q in quatrains) / len(quatrains),
        "alternation": sum(map(alternates, clauses)) / len(clauses),
    }


def shuffled(quatrains: list[list[str]], seed: int = 0) -> list[list[str]]:
    """Shuffle the characters over the same clauses: the result of chance alone."""
    characters = [char for quatrain in quatrains for clause in quatrain for char in clause]
    random.Random(seed).shuffle(characters)
    deck = iter(characters)
    return [["".join(next(deck) for _ in clause) for clause in quatrain] for quatrain in quatrains]
