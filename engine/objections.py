"""The sentences in which guards and checks object, as rules with numbers: what a page in any language can word anew.

The guards of the cache raise an error whose message is for a person; `objection` finds the rule of FORMAT.md that it is
about. A sentence that no rule knows stays as it is.
"""

from __future__ import annotations

import re

from engine.trace.records import Objection

_BLOCK = r"block (?P<block_id>\d+)"
RULES = {
    "shared_write": rf"{_BLOCK} is shared: allocate must copy it before the write",
    "shared_promise": rf"{_BLOCK} is shared and unwritten: allocate must copy it first",
    "stale_hit": rf"{_BLOCK} no longer holds what the lookup found: allocate right after it",
    "stale_index": rf"the index has {_BLOCK} under a hash it does not carry",
    "unknown_hash": rf"{_BLOCK} carries a hash that the index does not know",
    "ref_count": rf"{_BLOCK} has ref_count (?P<said>-?\d+) and is in (?P<counted>\d+) tables",
}


def objection(text: str) -> Objection:
    """The sentence `text` with its rule and numbers."""
    for rule, pattern in RULES.items():
        if found := re.fullmatch(pattern, text):
            return Objection(rule=rule, text=text, **{name: int(value) for name, value in found.groupdict().items()})
    return Objection(text=text)
