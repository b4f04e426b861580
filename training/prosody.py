"""Rhyme and tone of Chinese verse in modern pronunciation (pypinyin).

Pronunciation has changed since the poems were written, so real poems do not reach 100 %. The figures are meaningful
only in comparison with those of real and of shuffled poems.
"""

from __future__ import annotations

import itertools
import random

from pypinyin import Style, lazy_pinyin

LEVEL = {"1", "2"}  # 平 in modern Mandarin; the third and fourth tones are 仄
# groups of finals that rhyme: the Thirteen Tracks (十三辙)
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
    """Return whether two different characters rhyme."""
    a, b = (TRACK_OF.get(lazy_pinyin(char, style=Style.FINALS, strict=False)[0]) for char in (one, other))
    return one != other and a is not None and a == b


def is_level(char: str) -> bool:
    """Return whether the tone of a character is level (平)."""
    return lazy_pinyin(char, style=Style.TONE3)[0][-1] in LEVEL


def alternates(clause: str) -> bool:
    """Return whether the tones of the second, fourth and sixth characters alternate, as in regulated verse."""
    tones = [is_level(clause[place]) for place in range(1, len(clause) - 1, 2)]
    return all(a != b for a, b in itertools.pairwise(tones))


def prosody(quatrains: list[list[str]]) -> dict[str, float]:
    """Return the shares of regular quatrains and clauses. A quatrain has four clauses without punctuation.

    `rhyme`: quatrains whose second and fourth clauses rhyme. `level_rhyme`: quatrains in which both end in a level
    tone. `alternation`: clauses whose tones alternate; by chance one half with two positions, one quarter with three.
    """
    clauses = [clause for quatrain in quatrains for clause in quatrain]
    return {
        "quatrains": len(quatrains),
        "rhyme": sum(rhymes(q[1][-1], q[3][-1]) for q in quatrains) / len(quatrains),
        "level_rhyme": sum(is_level(q[1][-1]) and is_level(q[3][-1]) for q in quatrains) / len(quatrains),
        "alternation": sum(map(alternates, clauses)) / len(clauses),
    }


def shuffled(quatrains: list[list[str]], seed: int = 0) -> list[list[str]]:
    """Shuffle the characters among all clauses, as a random baseline."""
    characters = [char for quatrain in quatrains for clause in quatrain for char in clause]
    random.Random(seed).shuffle(characters)
    deck = iter(characters)
    return [["".join(next(deck) for _ in clause) for clause in quatrain] for quatrain in quatrains]
